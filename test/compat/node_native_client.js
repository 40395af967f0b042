'use strict';
// npm's zookeeper (Apache's C client as an addon): argument 1 is the server, 2 the folder of its package.
// Prints what it saw, a line each. Promise: two clients; every step waits for the one before; exit code 1 when a step
// failed or took too long.
const ZooKeeper = require(process.argv[3]);

const PATIENCE_MS = 30000;
const SESSION_MS = 10000;
const OPEN = [{ perms: ZooKeeper.ZOO_PERM_ALL, scheme: 'world', auth: 'anyone' }];
const WITH_TTL = 5;

function connected() {
    const client = new ZooKeeper({ connect: process.argv[2], timeout: SESSION_MS,
        debug_level: ZooKeeper.ZOO_LOG_LEVEL_ERROR, host_order_deterministic: false });
    return new Promise((resolve, reject) => {
        client.connect({}, (error) => (error ? reject(error) : resolve(client)));
    });
}

/** What a call of the client answers: its number first, then what came with it. */
function call(client, method, ...words) {
    return new Promise((resolve) => {
        const sent = client[method](...words, (code, error, ...results) => resolve({ code, error, results }));
        if (sent !== 0) { // the C client refused it, and will not call back
            resolve({ code: sent, error: 'not sent', results: [] });
        }
    });
}

function shown(value) {
    if (Buffer.isBuffer(value)) {
        return `"${value}"`;
    }
    if (value && value.czxid !== undefined) {
        return `version ${value.version} children ${value.numChildren} length ${value.dataLength} acl ${value.aversion} ` +
            `ephemeral ${!/^0*$/.test(value.ephemeralOwner)}`;
    }
    return JSON.stringify(Array.isArray(value) ? value.slice().sort() : value);
}

async function tell(label, client, method, ...words) {
    const { code, error, results } = await call(client, method, ...words);
    console.log(`${label}: ${code} ${error} ${results.map(shown).join(' | ')}`);
}

/** A watcher for a call, and the promise of the event that it gets. */
function watch() {
    let watcher;
    const event = new Promise((resolve) => {
        watcher = (type, state, path) => resolve(`event ${type} ${state} ${path}`);
    });
    return { watcher, event };
}

async function tree(one, two) {
    await tell('create', one, 'a_create', '/native', Buffer.from('data'), 0);
    await tell('again', one, 'a_create', '/native', Buffer.from('data'), 0);
    await tell('without parent', one, 'a_create', '/none/child', 'x', 0);
    await tell('bad path', one, 'a_create', 'relative', 'x', 0);
    await tell('sequential', one, 'a_create', '/native/s-', 'x', ZooKeeper.ZOO_SEQUENCE);
    await tell('with a TTL', one, 'a_createTtl', '/native/ttl', 'x', WITH_TTL, 60000);
    await tell('get', two, 'a_get', '/native', false);
    await tell('set', two, 'a_set', '/native', Buffer.from('more'), 0);
    await tell('bad version', two, 'a_set', '/native', Buffer.from('more'), 0);
    await tell('big', two, 'a_set', '/native', Buffer.alloc(500000, 'z'), -1);
    const { results } = await call(one, 'a_get', '/native', false);
    console.log(`big: ${results[1].length} bytes, same ${results[1].equals(Buffer.alloc(500000, 'z'))}`);
    await tell('exists', one, 'a_exists', '/native', false);
    await tell('exists not', one, 'a_exists', '/none', false);
    await tell('children', one, 'a_get_children', '/native', false);
    await tell('children and stat', one, 'a_get_children2', '/native', false);
    await tell('sync', one, 'a_sync', '/native');
    await tell('not empty', one, 'a_delete_', '/native', -1);
    await tell('delete', one, 'a_delete_', '/native/s-0000000000', 0);
    await tell('gone', one, 'a_delete_', '/native/s-0000000000', 0);
}

async function watches(one, two) {
    const made = watch();
    await tell('watch exists', one, 'aw_exists', '/native-watched', made.watcher);
    await tell('create', two, 'a_create', '/native-watched', '', 0);
    console.log(await made.event);
    const changed = watch();
    const child = watch();
    await tell('watch data', one, 'aw_get', '/native-watched', changed.watcher);
    await tell('watch children', one, 'aw_get_children', '/native-watched', child.watcher);
    await tell('child', two, 'a_create', '/native-watched/child', '', 0);
    console.log(await child.event);
    await tell('set', two, 'a_set', '/native-watched', 'x', -1);
    console.log(await changed.event);
    const gone = watch();
    await tell('watch child', one, 'aw_get_children2', '/native-watched/child', gone.watcher);
    await tell('delete', two, 'a_delete_', '/native-watched/child', -1);
    console.log(await gone.event);
}

async function ephemerals(one) {
    const owner = await connected();
    const gone = watch();
    await tell('ephemeral', owner, 'a_create', '/native-ephemeral', 'x', ZooKeeper.ZOO_EPHEMERAL);
    await tell('its child', owner, 'a_create', '/native-ephemeral/child', 'x', 0);
    await tell('seen', one, 'aw_exists', '/native-ephemeral', gone.watcher);
    owner.close();
    console.log(await gone.event);
    await tell('after close', one, 'a_exists', '/native-ephemeral', false);
}

async function authentication(one, two) {
    const hers = [{ perms: ZooKeeper.ZOO_PERM_ALL, scheme: 'auth', auth: '' }];
    await tell('open', one, 'a_create', '/native-hers', 'x', 0);
    await tell('nobody yet', one, 'a_set_acl', '/native-hers', -1, hers);
    await new Promise((resolve) => {
        one.add_auth('digest', 'ann:secret', (code, error) => {
            console.log(`add_auth: ${code} ${error}`);
            resolve();
        });
    });
    await tell('hers', one, 'a_set_acl', '/native-hers', 0, hers);
    await tell('her get', one, 'a_get', '/native-hers', false);
    await tell('his get', two, 'a_get', '/native-hers', false);
    await tell('her ACL', one, 'a_get_acl', '/native-hers');
    await tell('his set ACL', two, 'a_set_acl', '/native-hers', -1, OPEN);
    await tell('open again', one, 'a_set_acl', '/native-hers', -1, OPEN);
    await tell('his get', two, 'a_get', '/native-hers', false);
}

async function main() {
    setTimeout(() => {
        console.log('took too long');
        process.exit(1);
    }, PATIENCE_MS).unref();
    const [one, two] = [await connected(), await connected()];
    console.log(`state ${one.state} timeout ${one.timeout}`);
    for (const part of [tree, watches, ephemerals, authentication]) {
        console.log(`# ${part.name}`);
        await part(one, two);
    }
    await tell('config', one, 'a_getconfig', false);
    one.close();
    two.close();
    process.exit(0);
}

main().catch((error) => {
    console.log(error.stack);
    process.exit(1);
});
