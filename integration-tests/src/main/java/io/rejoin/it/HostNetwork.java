package io.rejoin.it;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/**
 * Hosts with networks of their own: network namespaces on a bridge, of which this machine has the
 * first address. Needs root and Debian's iproute2.
 */
public final class HostNetwork implements AutoCloseable {
  private static int networks;

  private final String bridge;
  private final String prefix;
  private final int hosts;

  private HostNetwork(String bridge, String prefix, int hosts) {
    this.bridge = bridge;
    this.prefix = prefix;
    this.hosts = hosts;
  }

  /** So many hosts beside this machine, 200 at most. */
  public static synchronized HostNetwork of(int hosts) {
    long pid = ProcessHandle.current().pid();
    int nth = networks++;
    String prefix = "10." + (150 + pid % 50) + "." + (pid / 50 + nth) % 250 + ".";
    HostNetwork network = new HostNetwork("rj" + pid % 1_000_000 + "b" + nth, prefix, hosts);
    try {
      network.open();
      return network;
    } catch (IllegalStateException failed) {
      network.close();
      throw failed;
    }
  }

  private void open() {
    ip("link", "add", bridge, "type", "bridge");
    ip("address", "add", address() + "/24", "dev", bridge);
    ip("link", "set", bridge, "up");
    for (int host = 0; host < hosts; host++) {
      ip("netns", "add", namespace(host));
      ip(
          "link",
          "add",
          cable(host),
          "type",
          "veth",
          "peer",
          "name",
          "eth0",
          "netns",
          namespace(host));
      ip("link", "set", cable(host), "master", bridge, "up");
      ip("-n", namespace(host), "address", "add", address(host) + "/24", "dev", "eth0");
      ip("-n", namespace(host), "link", "set", "eth0", "up");
      ip("-n", namespace(host), "link", "set", "lo", "up");
    }
  }

  public int hosts() {
    return hosts;
  }

  /** This machine's address. */
  public String address() {
    return prefix + 1;
  }

  /** A host's address. */
  public String address(int host) {
    return prefix + (host + 2);
  }

  /** What a program is started with to be on a host; it becomes the program. */
  public List<String> starter(int host) {
    return List.of("ip", "netns", "exec", namespace(host));
  }

  /** Pulls a host's cable: nobody is told, and nothing comes through. */
  public void cut(int host) {
    ip("link", "set", cable(host), "down");
  }

  /** Plugs it in again. */
  public void mend(int host) {
    ip("link", "set", cable(host), "up");
  }

  private String namespace(int host) {
    return bridge + "-" + host;
  }

  private String cable(int host) {
    return bridge + "v" + host;
  }

  private static void ip(String... arguments) {
    List<String> line = new ArrayList<>(List.of("ip"));
    line.addAll(List.of(arguments));
    String command = String.join(" ", line);
    try {
      Process process = new ProcessBuilder(line).redirectErrorStream(true).start();
      String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
      if (process.waitFor() != 0) {
        throw new IllegalStateException(command + ": " + said.trim() + "; namespaces need root");
      }
    } catch (IOException failed) {
      throw new IllegalStateException(command + " can't be run; Debian has it in iproute2", failed);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException("interrupted in " + command, interrupted);
    }
  }

  /** Takes it down; processes in it live on without it. */
  @Override
  public void close() {
    for (int host = 0; host < hosts; host++) {
      remove("link", "delete", cable(host));
      remove("netns", "delete", namespace(host));
    }
    remove("link", "delete", bridge);
  }

  private static void remove(String... arguments) {
    try {
      ip(arguments);
    } catch (IllegalStateException gone) {
      System.err.println(gone.getMessage());
    }
  }
}
