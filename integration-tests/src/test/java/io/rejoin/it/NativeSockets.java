package io.rejoin.it;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;

/**
 * The TCP sockets of native code in some process. Java's own, Spark's among them, are in another
 * table of the kernel's: they are for IPv6 and IPv4 alike.
 */
final class NativeSockets {
  private static final String LOOPBACK = "0100007F";
  private static final String ESTABLISHED = "01";
  private static final String LISTENING = "0A";

  private NativeSockets() {}

  /**
   * One connection, as one of its ends sees it.
   *
   * @param port of this end
   * @param peer the port of the other end
   */
  record Connection(int port, int peer) {}

  /** One line of the table. */
  private record Socket(String address, int port, int peer, String state, String inode) {
    static Socket of(String line) {
      String[] words = line.trim().split("\\s+");
      String[] own = words[1].split(":");
      String[] other = words[2].split(":");
      return new Socket(
          own[0], Integer.parseInt(own[1], 16), Integer.parseInt(other[1], 16), words[3], words[9]);
    }
  }

  /**
   * The ports at which it listens on 127.0.0.1: Rejoin's. Those of XGBoost are open to all
   * addresses.
   */
  static Set<Integer> listening(long process) {
    return owned(process, LISTENING).stream()
        .filter(socket -> socket.address().equals(LOOPBACK))
        .map(Socket::port)
        .collect(Collectors.toSet());
  }

  /** The same of all processes together, which costs little. */
  static Set<Integer> listening() {
    return sockets(Path.of("/proc/net/tcp"), LISTENING).stream()
        .filter(socket -> socket.address().equals(LOOPBACK))
        .map(Socket::port)
        .collect(Collectors.toSet());
  }

  /** Its connections. */
  static List<Connection> connections(long process) {
    return owned(process, ESTABLISHED).stream()
        .map(socket -> new Connection(socket.port(), socket.peer()))
        .collect(Collectors.toList());
  }

  /** None, if the process is gone. */
  private static List<Socket> owned(long process, String state) {
    Set<String> inodes = inodes(process);
    if (inodes.isEmpty()) {
      return List.of();
    }
    return sockets(Path.of("/proc", Long.toString(process), "net/tcp"), state).stream()
        .filter(socket -> inodes.contains(socket.inode()))
        .collect(Collectors.toList());
  }

  /** None, if the table is of a process that is gone. */
  private static List<Socket> sockets(Path table, String state) {
    List<Socket> found = new ArrayList<>();
    try (BufferedReader lines = Files.newBufferedReader(table)) {
      lines.readLine();
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        Socket socket = Socket.of(line);
        if (state.equals(LISTENING) && !socket.state().equals(LISTENING)) {
          // Listeners come first, and thousands of connections may follow.
          break;
        }
        if (socket.state().equals(state)) {
          found.add(socket);
        }
      }
      return found;
    } catch (IOException | UncheckedIOException gone) {
      return List.of();
    }
  }

  private static Set<String> inodes(long process) {
    Set<String> inodes = new HashSet<>();
    Path folder = Path.of("/proc", Long.toString(process), "fd");
    try (DirectoryStream<Path> files = Files.newDirectoryStream(folder)) {
      for (Path file : files) {
        String target = target(file);
        if (target.startsWith("socket:[")) {
          inodes.add(target.substring(8, target.length() - 1));
        }
      }
    } catch (IOException | java.nio.file.DirectoryIteratorException gone) {
      return Set.of();
    }
    return inodes;
  }

  private static String target(Path file) {
    try {
      return Files.readSymbolicLink(file).toString();
    } catch (IOException closed) {
      return "";
    }
  }
}
