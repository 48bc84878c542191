package io.rejoin.it.flink;

import io.rejoin.it.JavaProcess;
import io.rejoin.it.WorkDirectory;
import java.io.File;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.util.regex.Pattern;
import org.apache.flink.shaded.zookeeper3.org.apache.zookeeper.server.ServerCnxnFactory;

/** A ZooKeeper server, as Flink ships it, in a process of its own. */
public final class ZooKeeperServer {
  /** What it prints when it listens, with its port. */
  static final Pattern LISTENING = Pattern.compile("ZooKeeper listens at 127\\.0\\.0\\.1:(\\d+)");

  // A client's session may last 2 to 20 of them.
  private static final int TICK_MILLIS = 1000;
  private static final int CLIENTS = 100;

  private ZooKeeperServer() {}

  /** Starts one with its data in a cluster's folder; {@link #LISTENING} tells when it has. */
  static FlinkProcess start(WorkDirectory work) throws IOException {
    Path log = work.file("zookeeper.out.log");
    JavaProcess java =
        new JavaProcess("zookeeper", ZooKeeperServer.class, work.folder("zookeeper").toString())
            .memory("128m")
            .option("-XX:TieredStopAtLevel=1")
            .property("log4j2.configurationFile", "rejoin-it-log4j2.properties")
            .property("rejoin.it.log", work.file("zookeeper.log").toString())
            .start(log);
    return new FlinkProcess("zookeeper", java.process(), log);
  }

  /**
   * Serves until it is killed.
   *
   * @param arguments the folder of its data
   */
  public static void main(String[] arguments) throws Exception {
    File data = new File(arguments[0]);
    ServerCnxnFactory server =
        ServerCnxnFactory.createFactory(new InetSocketAddress("127.0.0.1", 0), CLIENTS);
    server.startup(
        new org.apache.flink.shaded.zookeeper3.org.apache.zookeeper.server.ZooKeeperServer(
            data, data, TICK_MILLIS));
    System.out.println("ZooKeeper listens at 127.0.0.1:" + server.getLocalPort());
    server.join();
  }
}
