package io.rejoin.it;

import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;

/** One port of one address, passed on to the same port of another one, as NAT does. */
final class PortForward implements AutoCloseable {
  private final ServerSocket listener;
  private final String target;
  private final List<Closeable> open = new CopyOnWriteArrayList<>();
  private volatile int connections;

  /** Of any free port of {@code address}. */
  PortForward(String address, String target) throws IOException {
    this.listener = new ServerSocket(0, 50, InetAddress.getByName(address));
    this.target = target;
    start(this::accept);
  }

  int port() {
    return listener.getLocalPort();
  }

  /** How many connections came to it. */
  int connections() {
    return connections;
  }

  private void accept() throws IOException {
    while (true) {
      Socket from = listener.accept();
      open.add(from);
      connections++;
      try {
        Socket to = new Socket(target, port());
        open.add(to);
        start(() -> copy(from, to));
        start(() -> copy(to, from));
      } catch (IOException refused) {
        from.close();
      }
    }
  }

  /** To its end, which is passed on, too. */
  private static void copy(Socket from, Socket to) throws IOException {
    try (InputStream in = from.getInputStream()) {
      in.transferTo(to.getOutputStream());
    } finally {
      to.close();
    }
  }

  private interface Work {
    void run() throws IOException;
  }

  private static void start(Work work) {
    Thread thread =
        new Thread(
            () -> {
              try {
                work.run();
              } catch (IOException closed) {
                // So it ends.
              }
            },
            "port-forward");
    thread.setDaemon(true);
    thread.start();
  }

  @Override
  public void close() throws IOException {
    listener.close();
    for (Closeable one : open) {
      one.close();
    }
  }
}
