import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Comparator;
import java.util.stream.Collectors;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryOneTime;
import org.apache.curator.x.discovery.ServiceDiscovery;
import org.apache.curator.x.discovery.ServiceDiscoveryBuilder;
import org.apache.curator.x.discovery.ServiceInstance;
import org.apache.curator.x.discovery.ServiceType;
import org.apache.curator.x.discovery.UriSpec;

/**
 * Curator's discovery beside ours: "register ID PORT PAYLOAD [TYPE]", "list SERVICE", "names", "query SERVICE ID", "end", one a
 * line.
 */
public final class RegistryPeer {
    private RegistryPeer() {
    }

    public static void main(String[] arguments) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.newClient(arguments[0], 5000, 5000, new RetryOneTime(100));
        client.start();
        ServiceDiscovery<String> discovery =
            ServiceDiscoveryBuilder.builder(String.class).client(client).basePath(arguments[1]).build();
        discovery.start();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null && !line.equals("end"); line = commands.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("register")) {
                discovery.registerService(ServiceInstance.<String>builder().name("shop").id(words[1])
                    .serviceType(ServiceType.valueOf(words.length > 4 ? words[4] : "DYNAMIC"))
                    .address("127.0.0.2").port(Integer.parseInt(words[2])).payload(words[3])
                    .uriSpec(new UriSpec("{scheme}://{address}:{port}/of/{id}")).build());
                System.out.println("registered");
            } else if (words[0].equals("names")) {
                System.out.println(discovery.queryForNames().stream().sorted().collect(Collectors.joining(" ")));
            } else if (words[0].equals("query")) {
                ServiceInstance<String> one = discovery.queryForInstance(words[1], words[2]);
                System.out.println(one == null ? "none" : one.getPort() + " " + one.getServiceType());
            } else {
                System.out.println(discovery.queryForInstances(words[1]).stream()
                    .sorted(Comparator.comparing(ServiceInstance::getPort))
                    .map(i -> i.getAddress() + ":" + i.getPort() + ":" + i.getPayload() + ":" + i.getServiceType() + ":"
                        + i.isEnabled() + ":" + (i.getRegistrationTimeUTC() > 0) + ":" + i.buildUriSpec())
                    .collect(Collectors.joining(" ", "[", "]")));
            }
            System.out.flush();
        }
        discovery.close();
        client.close();
        System.exit(0);
    }
}
