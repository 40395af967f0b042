'use strict';
// npm's node-zookeeper-client: argument 1 is the server, 2 the folder of its package. Prints what it saw, a line each.
// Promise: two clients; every step waits for the one before; exit code 1 when a step failed or took too long.
const zookeeper = require(process.argv[3]);

const PATIENCE_MS = 20000;
const { ACL, CreateMode, Id, Permission } = zookeeper;

function connected() {
    const client = zookeeper.createClient(process.argv[2], { sessionTimeout: 10000 });
    return new Promise((resolve) => {
        client.once('connected', () => resolve(client));
        client.connect();
    });
}

/** The result of one call of the client, or its error's name. */
function call(client, method, ...words) {
    return new Promise((resolve) => {
        client[method](...words, (error, ...results) => resolve(error ? { error: error.getName() } : { results }));
    });
}

async function tell(label, client, method, ...words) {
    const { error, results } = await call(client, method, ...words);
    const text = (value) => {
        if (Buffer.isBuffer(value)) {
            return value.toString();
        }
        if (value && value.version !== undefined && value.czxid) {
            return `version ${value.version} children ${value.numChildren} length ${value.dataLength}`;
        }
        return JSON.stringify(value);
    };
    console.log(`${label}: ${error || results.map(text).join(' | ')}`);
}

/** A watcher for a call, and the promise of the event that it gets. */
function watch() {
    let watcher;
    const event = new Promise((resolve) => {
        watcher = (seen) => resolve(`${seen.getName()} ${seen.getPath()}`);
    });
    return { watcher, event };
}

async function tree(one, two) {
    await tell('create', one, 'create', '/node', Buffer.from('data'), ACL.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
    await tell('again', one, 'create', '/node', Buffer.from('data'));
    await tell('without parent', one, 'create', '/none/child');
    await tell('mkdirp', one, 'mkdirp', '/node/a/b/c', Buffer.from('deep'));
    await tell('sequential', one, 'create', '/node/s-', CreateMode.PERSISTENT_SEQUENTIAL);
    await tell('get', two, 'getData', '/node');
    await tell('set', two, 'setData', '/node', Buffer.from('more'), 0);
    await tell('bad version', two, 'setData', '/node', Buffer.from('more'), 0);
    await tell('exists', one, 'exists', '/node');
    await tell('exists not', one, 'exists', '/none');
    const { results } = await call(one, 'getChildren', '/node');
    console.log(`children: ${results[0].sort().join(' ')}`);
    await tell('not empty', one, 'remove', '/node');
    await tell('recursive', one, 'removeRecursive', '/node/a');
    await tell('get ACL', one, 'getACL', '/node');
}

async function watches(one, two) {
    const made = watch();
    await tell('watch exists', one, 'exists', '/watched', made.watcher);
    await tell('create', two, 'create', '/watched');
    console.log(await made.event);
    const changed = watch();
    const child = watch();
    await tell('watch data', one, 'getData', '/watched', changed.watcher);
    await call(one, 'getChildren', '/watched', child.watcher);
    await tell('child', two, 'create', '/watched/child');
    console.log(await child.event);
    await tell('set', two, 'setData', '/watched', Buffer.from('x'));
    console.log(await changed.event);
    const gone = watch();
    await tell('watch child', one, 'exists', '/watched/child', gone.watcher);
    await tell('remove', two, 'remove', '/watched/child');
    console.log(await gone.event);
}

async function ephemerals(one) {
    const owner = await connected();
    const gone = watch();
    await tell('ephemeral', owner, 'create', '/ephemeral', CreateMode.EPHEMERAL);
    await tell('its child', owner, 'create', '/ephemeral/child');
    await call(one, 'exists', '/ephemeral', gone.watcher);
    owner.close();
    console.log(await gone.event);
    await tell('after close', one, 'exists', '/ephemeral');
}

function commit(transaction) {
    return new Promise((resolve) => {
        transaction.commit((error, results) => {
            const seen = results ? results.map((result) => result.path || result.err || result.type || 'ok') : [];
            resolve(`${error ? error.getName() : 'OK'} ${JSON.stringify(seen)}`);
        });
    });
}

async function transactions(one) {
    console.log(await commit(one.transaction().create('/multi', Buffer.from('1')).create('/multi/a')
        .setData('/multi', Buffer.from('2')).check('/multi', 1).remove('/multi/a')));
    await tell('after', one, 'getData', '/multi');
    console.log(await commit(one.transaction().create('/multi/b').check('/multi', 7).create('/multi/c')));
    await tell('nothing', one, 'getChildren', '/multi');
}

async function authentication(one, two) {
    const hers = new ACL(Permission.ALL, new Id('auth', ''));
    one.addAuthInfo('digest', Buffer.from('ann:secret'));
    await tell('hers', one, 'create', '/hers', Buffer.from('x'), [hers]);
    await tell('her get', one, 'getData', '/hers');
    await tell('his get', two, 'getData', '/hers');
    await tell('his set ACL', two, 'setACL', '/hers', ACL.OPEN_ACL_UNSAFE, -1);
    await tell('open', one, 'setACL', '/hers', ACL.OPEN_ACL_UNSAFE, 0);
    await tell('his get', two, 'getData', '/hers');
}

async function main() {
    setTimeout(() => {
        console.log('took too long');
        process.exit(1);
    }, PATIENCE_MS).unref();
    const [one, two] = [await connected(), await connected()];
    console.log(`state ${one.getState().getName()} timeout ${one.getSessionTimeout()}`);
    for (const part of [tree, watches, ephemerals, transactions, authentication]) {
        console.log(`# ${part.name}`);
        await part(one, two);
    }
    one.close();
    two.close();
}

main().catch((error) => {
    console.log(error.stack);
    process.exit(1);
});
