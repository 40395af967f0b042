import java.util.Collection;
import java.util.TreeSet;
import java.util.stream.Collectors;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.x.discovery.ServiceCache;
import org.apache.curator.x.discovery.ServiceDiscovery;
import org.apache.curator.x.discovery.ServiceDiscoveryBuilder;
import org.apache.curator.x.discovery.ServiceInstance;
import org.apache.curator.x.discovery.ServiceProvider;
import org.apache.zookeeper.data.Stat;

/** ServiceDiscovery: instances that register, are found, and go. */
final class Discovery {
    private Discovery() {
    }

    private static ServiceDiscovery<Void> register(Scene scene, CuratorFramework client, int port) throws Exception {
        ServiceInstance<Void> instance = ServiceInstance.<Void>builder().name("shop").id("id-" + port)
            .address("127.0.0.1").port(port).build();
        ServiceDiscovery<Void> discovery = scene.keep(ServiceDiscoveryBuilder.builder(Void.class).client(client)
            .basePath("/discovery").thisInstance(instance).build());
        discovery.start();
        return discovery;
    }

    private static String ports(Collection<ServiceInstance<Void>> instances) {
        return new TreeSet<>(instances.stream().map(ServiceInstance::getPort).collect(Collectors.toSet())).toString();
    }

    /**
     * Withdraws an instance until it is gone for the cache, the provider and who asks. Curator does it once, and registers
     * anew whatever a client has whose connection is back: who leaves at that moment may come again.
     */
    private static void leave(Scene scene, ServiceDiscovery<Void> leaving, ServiceDiscovery<Void> search,
            ServiceCache<Void> cache, ServiceProvider<Void> provider, String left) throws Exception {
        leaving.close();
        Scene.await(() -> {
            boolean gone = ports(cache.getInstances()).equals(left) && ports(provider.getAllInstances()).equals(left)
                && ports(search.queryForInstances("shop")).equals(left);
            if (!gone && scene.losses() > 0) {
                leaving.close();
            }
            return gone;
        }, left + " is left at the cache, the provider and the servers");
    }

    static void services(Scene scene) throws Exception {
        CuratorFramework one = scene.client();
        register(scene, one, 1);
        CuratorFramework two = scene.client();
        ServiceDiscovery<Void> second = register(scene, two, 2);
        CuratorFramework reader = scene.client();
        ServiceDiscovery<Void> search =
            scene.keep(ServiceDiscoveryBuilder.builder(Void.class).client(reader).basePath("/discovery").build());
        search.start();
        ServiceCache<Void> cache = scene.keep(search.serviceCacheBuilder().name("shop").build());
        cache.start();
        ServiceProvider<Void> provider = scene.keep(search.serviceProviderBuilder().serviceName("shop").build());
        provider.start();
        scene.say(search.queryForNames() + " " + ports(search.queryForInstances("shop")));
        Scene.await(() -> ports(cache.getInstances()).equals("[1, 2]"), "both in the cache");
        Scene.await(() -> ports(provider.getAllInstances()).equals("[1, 2]"), "both at the provider");
        Scene.check(provider.getInstance() != null, "one to be used");
        scene.expire(one);
        Scene.await(() -> ports(search.queryForInstances("shop")).equals("[1, 2]"), "registered anew after expiry");
        Scene.await(() -> ports(cache.getInstances()).equals("[1, 2]"), "both in the cache again");
        leave(scene, second, search, cache, provider, "[1]");
        scene.say(ports(search.queryForInstances("shop")));
    }

    /** The zxid of an instance's registration; 0 while there is none. */
    private static long registered(CuratorFramework client, int port) throws Exception {
        Stat stat = client.checkExists().forPath("/discovery/shop/id-" + port);
        return stat == null ? 0 : stat.getCzxid();
    }

    /** Instances, a cache and a provider over a kill of the server: who stays is found, who goes or comes is noticed. */
    static void restart(Scene scene) throws Exception {
        CuratorFramework one = scene.client();
        register(scene, one, 1);
        ServiceDiscovery<Void> second = register(scene, scene.client(), 2);
        CuratorFramework reader = scene.client();
        ServiceDiscovery<Void> search =
            scene.keep(ServiceDiscoveryBuilder.builder(Void.class).client(reader).basePath("/discovery").build());
        search.start();
        ServiceCache<Void> cache = scene.keep(search.serviceCacheBuilder().name("shop").build());
        cache.start();
        ServiceProvider<Void> provider = scene.keep(search.serviceProviderBuilder().serviceName("shop").build());
        provider.start();
        Scene.await(() -> ports(cache.getInstances()).equals("[1, 2]"), "both in the cache");
        long session = one.getZookeeperClient().getZooKeeper().getSessionId();
        long[] before = {registered(reader, 1), registered(reader, 2)};
        scene.restart();
        // A client that is back makes its node anew, though the old one is there.
        Scene.await(() -> registered(reader, 1) > before[0] && registered(reader, 2) > before[1], "registered anew");
        scene.say(ports(search.queryForInstances("shop")));
        Scene.check(one.getZookeeperClient().getZooKeeper().getSessionId() == session, "the same session");
        register(scene, scene.client(), 3);
        Scene.await(() -> ports(cache.getInstances()).equals("[1, 2, 3]"), "the third in the cache");
        leave(scene, second, search, cache, provider, "[1, 3]");
        scene.expire(one);
        Scene.await(() -> ports(search.queryForInstances("shop")).equals("[1, 3]"), "registered anew after expiry");
        Scene.await(() -> ports(cache.getInstances()).equals("[1, 3]"), "both in the cache after expiry");
        scene.say(search.queryForNames() + " " + ports(provider.getAllInstances()));
    }
}
