package io.rejoin.it;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Master and worker in the driver's process, executors in processes of their own. */
@DisplayName("in local-cluster mode")
class LocalClusterIT {
  private static final Duration LIMIT = Duration.ofSeconds(200);
  private static final String PASSWORD = "rejoin";

  /** With what an administrator can switch on; TLS between processes came with Spark 4. */
  @Test
  void a_killed_executor_is_survived_where_all_traffic_is_authenticated_and_encrypted(
      @TempDir Path temporary) throws Exception {
    Map<String, String> secure = new HashMap<>();
    secure.put("spark.authenticate", "true");
    secure.put("spark.authenticate.secret", "known to this test");
    secure.put("spark.io.encryption.enabled", "true");
    if (org.apache.spark.package$.MODULE$.SPARK_VERSION().startsWith("3.")) {
      secure.put("spark.network.crypto.enabled", "true");
    } else {
      Path store = keyStore(temporary);
      secure.put("spark.ssl.rpc.enabled", "true");
      secure.put("spark.ssl.rpc.keyStore", store.toString());
      secure.put("spark.ssl.rpc.keyStorePassword", PASSWORD);
      secure.put("spark.ssl.rpc.keyPassword", PASSWORD);
      secure.put("spark.ssl.rpc.trustStore", store.toString());
      secure.put("spark.ssl.rpc.trustStorePassword", PASSWORD);
    }
    Map<String, String> settings = Sessions.cluster().configuration();
    settings.putAll(secure);
    settings.put("spark.master", "local-cluster[4,1,900]");
    settings.put("spark.rejoin.checkpoint.rounds", "1");
    settings.remove("spark.executor.cores");
    String[] trainings = {
      Recipe.BINARY.name(), "3", "10", "", Fault.of(1).version(5, 10_000).kill()
    };
    try (FitProcess driver = new FitProcess(settings, temporary.toString(), trainings)) {
      assertEquals("model, again 1, model", driver.trainings(LIMIT.toSeconds()));
    }
  }

  private static Path keyStore(Path folder) throws Exception {
    Path file = folder.resolve("keys.p12");
    Path keytool = Path.of(System.getProperty("java.home"), "bin", "keytool");
    List<String> command = new ArrayList<>(List.of(keytool.toString(), "-genkeypair"));
    command.addAll(List.of("-alias", "spark", "-keyalg", "RSA", "-dname", "CN=127.0.0.1"));
    command.addAll(List.of("-storetype", "PKCS12", "-keystore", file.toString()));
    command.addAll(List.of("-storepass", PASSWORD, "-keypass", PASSWORD));
    assertEquals(0, new ProcessBuilder(command).inheritIO().start().waitFor(), "keytool");
    return file;
  }
}
