// A program that uses ioredis' Sentinel support, unchanged: writes and prints each acknowledgement, as sentinel_client.py.
// usage: node sentinel_client.js FOLDER-OF-IOREDIS HOST:PORT,... NAME TAG
"use strict";
const [folder, sentinels, name, tag] = process.argv.slice(2);
const Redis = require(folder);

const redis = new Redis({
  sentinels: sentinels.split(",").map((text) => {
    const at = text.lastIndexOf(":");
    return { host: text.slice(0, at), port: Number(text.slice(at + 1)) };
  }),
  name,
  autoResendUnfulfilledCommands: false, // a WAIT that is sent again on another connection proves nothing
  commandTimeout: 500,
  connectTimeout: 500,
});
redis.on("error", () => {});

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

async function main() {
  for (let number = 1; ; number++) {
    for (;;) {
      try {
        const [set, wait] = await redis.pipeline().set(`${tag}:${number}`, number).wait(1, 300).exec();
        if (!set[0] && !wait[0]) {
          process.stdout.write(`ack ${number} ${process.hrtime.bigint()} ${wait[1]}\n`);
          break;
        }
      } catch (error) {
        // tried again
      }
      await pause(5);
    }
    await pause(2);
  }
}

main();
