import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;

/**
 * Curator's recipes on one server: reads "CLASS CASE" a line, runs that static method, says how it went.
 *
 * <p>Output: "= LINE" is what a case saw, "! restart" asks for the server to be killed and started again (answered by
 * "restarted" on the input), "! lost N" counts the connections that its clients lost; "! ok" and "! failed" end a case; a failure's stack goes to the error stream.
 */
public final class Main {
    private Main() {
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.split(" ");
            Scene scene = new Scene(arguments[0], commands);
            boolean passed = run(words[0], words[1], scene);
            synchronized (System.out) {
                System.out.println("! lost " + scene.losses());
                System.out.println(passed ? "! ok" : "! failed");
                System.out.flush();
            }
        }
        System.exit(0);
    }

    private static boolean run(String type, String name, Scene scene) {
        try (scene) {
            Class.forName(type).getDeclaredMethod(name, Scene.class).invoke(null, scene);
            return true;
        } catch (InvocationTargetException failure) {
            failure.getCause().printStackTrace();
        } catch (Exception | AssertionError failure) {
            failure.printStackTrace();
        }
        return false;
    }
}
