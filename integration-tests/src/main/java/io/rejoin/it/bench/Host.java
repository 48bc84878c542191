package io.rejoin.it.bench;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.ArrayList;
import java.util.List;

/**
 * Where processes are: this machine, or network namespaces that play hosts, as {@code rejoin-bench
 * network} makes them and names them in {@value #VARIABLE}.
 *
 * @param namespace where it is entered; empty for this machine
 * @param address in the network
 */
public record Host(String namespace, String address) {
  static final String VARIABLE = "REJOIN_BENCH_HOSTS";

  /** This machine. */
  public static final Host HERE = new Host("", "127.0.0.1");

  /**
   * The hosts that the surroundings name, the one we are in first; {@link #HERE} if there are none.
   */
  static List<Host> all() {
    String named = System.getenv().getOrDefault(VARIABLE, "");
    List<Host> hosts = new ArrayList<>();
    for (String one : named.isEmpty() ? new String[0] : named.split(",")) {
      String[] parts = one.split("=", 2);
      if (parts.length != 2) {
        throw new IllegalArgumentException(
            "expected name=address,name=address in " + VARIABLE + ", saw `" + named + "`");
      }
      hosts.add(new Host(parts[0], parts[1]));
    }
    return hosts.isEmpty() ? List.of(HERE) : hosts;
  }

  InetAddress inet() throws UnknownHostException {
    return InetAddress.getByName(address);
  }

  /** What a program is started with to be there. */
  List<String> starter() {
    return namespace.isEmpty() ? List.of() : List.of("ip", "netns", "exec", namespace);
  }
}
