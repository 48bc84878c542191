package io.rejoin.it;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Iterator;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/**
 * The process of an {@link Attack}: any user of the host, with descriptors of its own, who knows
 * nothing of the job but at which ports its processes listen.
 */
final class Attacker {
  /** How its connections behave. */
  enum Manner {
    /** They say nothing and stay; one that the other end has closed is made again. */
    HELD,
    /** They say nothing, are closed after a while and are made again. */
    FLOOD,
    /** The same, and each begins with something that is no start of a link, or not all of one. */
    GARBAGE
  }

  /** After so long it looks again where its victims listen, and says what it has done. */
  private static final long LOOK_MILLIS = 100;

  /** A port with many connections to be made doesn't keep the others waiting. */
  private static final int STEP = 200;

  private static final int WIRE_VERSIONS = 32;

  private final Map<Integer, Deque<SocketChannel>> crowds = new TreeMap<>();
  private final Random random = new Random(1);
  private final Manner manner;
  private final int each;
  private final int perSecond;
  private volatile Set<Integer> listening = Set.of();
  private long made;

  private Attacker(Manner manner, int each, int perSecond) {
    this.manner = manner;
    this.each = each;
    this.perSecond = perSecond;
  }

  /**
   * The manner, how many connections at each port, how many of all are made again in a second, the
   * driver's process, and the mark of executors' command lines.
   */
  public static void main(String[] arguments) {
    Attacker attacker =
        new Attacker(
            Manner.valueOf(arguments[0]),
            Integer.parseInt(arguments[1]),
            Integer.parseInt(arguments[2]));
    attacker.run(Long.parseLong(arguments[3]), arguments[4]);
  }

  private void run(long driver, String mark) {
    long began = System.nanoTime();
    long reported = began;
    long renewed = 0;
    // A look at all that the victims have open may take long, and no connection waits for it.
    Thread looks = new Thread(() -> look(driver, mark), "looks");
    looks.setUncaughtExceptionHandler(
        (thread, failure) -> {
          failure.printStackTrace();
          Runtime.getRuntime().halt(1);
        });
    looks.start();
    while (true) {
      long now = System.nanoTime();
      follow();
      if (now - reported >= TimeUnit.MILLISECONDS.toNanos(LOOK_MILLIS)) {
        reported = now;
        System.out.println("made " + made + " at " + crowds.size());
      }
      long due = (long) ((now - began) / 1e9 * perSecond);
      renew((int) Math.min(due - renewed, STEP));
      renewed = due;
      crowds.forEach(this::fill);
      LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(1)); // The rate is kept by the clock.
    }
  }

  private void look(long driver, String mark) {
    Set<Integer> known = Set.of();
    while (true) {
      LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(LOOK_MILLIS));
      // Whose they are is dear to find out, and would take the victims' processors by itself.
      Set<Integer> all = NativeSockets.listening();
      if (all.equals(known)) {
        continue;
      }
      known = all;
      Set<Integer> ports = new TreeSet<>(NativeSockets.listening(driver));
      Processes.marked(mark)
          .forEach(process -> ports.addAll(NativeSockets.listening(process.pid())));
      listening = ports;
    }
  }

  /** To the ports that were found last. */
  private void follow() {
    Set<Integer> ports = listening;
    // Another process may listen next where one has ended.
    Set<Integer> gone = new TreeSet<>(crowds.keySet());
    gone.removeAll(ports);
    gone.forEach(port -> crowds.remove(port).forEach(Attacker::close));
    ports.forEach(port -> crowds.computeIfAbsent(port, none -> new ArrayDeque<>()));
  }

  /** The oldest of one port, then that of the next. */
  private void renew(int count) {
    Iterator<Deque<SocketChannel>> ports = crowds.values().iterator();
    for (int done = 0; done < count && !crowds.isEmpty(); done++) {
      if (!ports.hasNext()) {
        ports = crowds.values().iterator();
      }
      Deque<SocketChannel> crowd = ports.next();
      SocketChannel oldest = crowd.poll();
      if (oldest != null && manner == Manner.HELD && isOpen(oldest)) {
        crowd.add(oldest);
      } else if (oldest != null) {
        close(oldest);
      }
    }
  }

  private void fill(int port, Deque<SocketChannel> crowd) {
    int wanted = Math.min(each, crowd.size() + STEP);
    // Where nothing listens any more one try in a turn is enough.
    while (crowd.size() < wanted && connect(port, crowd)) {
      made++;
    }
  }

  private boolean connect(int port, Deque<SocketChannel> crowd) {
    SocketChannel channel = null;
    try {
      channel = SocketChannel.open();
      // Closed with a reset: its own port is free at once.
      channel.setOption(StandardSocketOptions.SO_LINGER, 0);
      channel.configureBlocking(false);
      // On loopback it is there, or refused, when the call returns.
      if (!channel.connect(new InetSocketAddress("127.0.0.1", port)) && !channel.finishConnect()) {
        crowd.add(channel);
        return true;
      }
      if (manner == Manner.GARBAGE) {
        channel.write(ByteBuffer.wrap(garbage()));
      }
      crowd.add(channel);
      return true;
    } catch (IOException refused) {
      close(channel);
      return false;
    }
  }

  /** Whether the other end has not closed it. */
  private static boolean isOpen(SocketChannel channel) {
    try {
      return !channel.finishConnect() || channel.read(ByteBuffer.allocate(64)) >= 0;
    } catch (IOException reset) {
      return false;
    }
  }

  private static void close(SocketChannel channel) {
    try {
      if (channel != null) {
        channel.close();
      }
    } catch (IOException alreadyGone) {
      // That was wanted.
    }
  }

  /** Noise, other protocols, and starts of a handshake: cut off, too long, or with no proof. */
  private byte[] garbage() {
    byte[] noise = new byte[1 + random.nextInt(2_000)];
    random.nextBytes(noise);
    switch (random.nextInt(6)) {
      case 0:
        return noise;
      case 1:
        return "GET / HTTP/1.1\r\nHost: rejoin\r\n\r\n".getBytes(StandardCharsets.US_ASCII);
      case 2:
        return "RJ".getBytes(StandardCharsets.US_ASCII);
      case 3:
        // How a worker of XGBoost's greets its tracker, and a length that no text has.
        return ByteBuffer.allocate(8)
            .order(ByteOrder.LITTLE_ENDIAN)
            .putInt(0xff99)
            .putInt(Integer.MAX_VALUE)
            .array();
      case 4:
        return start(0xffff, noise);
      default:
        return start(noise.length % 512, noise);
    }
  }

  /** A preamble of some version, among them the right one, a message's length, and noise. */
  private byte[] start(int length, byte[] noise) {
    return ByteBuffer.allocate(10 + noise.length)
        .order(ByteOrder.LITTLE_ENDIAN)
        .put("RJN".getBytes(StandardCharsets.US_ASCII))
        .putShort((short) (1 + random.nextInt(WIRE_VERSIONS)))
        .put(new byte[3])
        .putShort((short) length)
        .put(noise)
        .array();
  }
}
