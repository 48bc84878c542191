package io.rejoin.it.bench;

import io.rejoin.it.JavaProcess;
import io.rejoin.it.WorkDirectory;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.Serializable;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;

/** The parent's end of a {@link WorkerMain}. */
final class WorkerProcess implements AutoCloseable {
  private static final int START_MILLIS = 60_000;

  private final String name;
  private final Host host;
  private final JavaProcess process;
  private final Socket socket;
  private final ObjectOutputStream out;
  private final AtomicInteger numbers = new AtomicInteger();
  private final Map<Integer, CompletableFuture<Serializable>> open = new ConcurrentHashMap<>();
  private final CompletableFuture<Long> ended = new CompletableFuture<>();

  private WorkerProcess(String name, Host host, JavaProcess process, Socket socket)
      throws IOException {
    this.name = name;
    this.host = host;
    this.process = process;
    this.socket = socket;
    this.out = new ObjectOutputStream(socket.getOutputStream());
    out.flush();
    ObjectInputStream in = new ObjectInputStream(socket.getInputStream());
    Thread reader = new Thread(() -> read(in), "answers-of-" + name);
    reader.setDaemon(true);
    reader.start();
  }

  /** Starts one and waits until it is there. Its output goes to a file of its name. */
  static WorkerProcess start(
      String name, WorkDirectory work, String memory, Map<String, String> properties)
      throws IOException {
    return start(name, Host.HERE, Host.HERE, work, memory, properties);
  }

  /** The same on one of several hosts; {@code here} is the one that we are on. */
  static WorkerProcess start(
      String name,
      Host here,
      Host host,
      WorkDirectory work,
      String memory,
      Map<String, String> properties)
      throws IOException {
    String token = UUID.randomUUID().toString();
    try (ServerSocket door = new ServerSocket(0, 16, here.inet())) {
      door.setSoTimeout(START_MILLIS);
      String port = Integer.toString(door.getLocalPort());
      JavaProcess process =
          new JavaProcess(name, WorkerMain.class, here.address(), port)
              .startedBy(host.starter())
              .memory(memory)
              .environment(WorkerMain.TOKEN, token)
              // As Spark's tasks have it with nthread = 1.
              .environment("OMP_NUM_THREADS", "1");
      properties.forEach(process::property);
      process.start(work.file(name + ".log"));
      for (; ; ) {
        Socket socket = door.accept();
        socket.setTcpNoDelay(true);
        socket.setSoTimeout(START_MILLIS);
        if (new DataInputStream(socket.getInputStream()).readUTF().equals(token)) {
          socket.setSoTimeout(0);
          return new WorkerProcess(name, host, process, socket);
        }
        socket.close();
      }
    }
  }

  /** Has something done there. */
  CompletableFuture<Serializable> ask(Work work) {
    int number = numbers.incrementAndGet();
    CompletableFuture<Serializable> answer = new CompletableFuture<>();
    open.put(number, answer);
    if (ended.isDone()) {
      answer.completeExceptionally(new IOException(name + " has ended"));
      return answer;
    }
    synchronized (out) {
      try {
        out.writeObject(new WorkerMain.Order(number, work));
        out.reset();
        out.flush();
      } catch (IOException gone) {
        answer.completeExceptionally(gone);
      }
    }
    return answer;
  }

  /** Waits for an answer, at most so long; a failure there is a failure here. */
  static Serializable await(CompletableFuture<Serializable> answer, long seconds) {
    try {
      return answer.get(seconds, TimeUnit.SECONDS);
    } catch (TimeoutException late) {
      throw new IllegalStateException("no answer from a worker within " + seconds + " s", late);
    } catch (ExecutionException failed) {
      throw new IllegalStateException(failed.getCause().getMessage(), failed.getCause());
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException("interrupted while waiting for a worker", interrupted);
    }
  }

  /** Where it is. */
  Host host() {
    return host;
  }

  /** Its process number. */
  long pid() {
    return process.process().pid();
  }

  /** When its sockets closed, on the clock of {@link System#nanoTime}: the one to us tells it. */
  CompletableFuture<Long> ended() {
    return ended;
  }

  private void read(ObjectInputStream in) {
    try {
      for (; ; ) {
        WorkerMain.Answer answer = (WorkerMain.Answer) in.readObject();
        CompletableFuture<Serializable> waiting = open.remove(answer.number());
        if (answer.thrown() == null) {
          waiting.complete(answer.result());
        } else {
          waiting.completeExceptionally(new IllegalStateException(name + ": " + answer.thrown()));
        }
      }
    } catch (IOException | ClassNotFoundException end) {
      ended.complete(System.nanoTime());
      open.values().forEach(waiting -> waiting.completeExceptionally(end));
    }
  }

  @Override
  public void close() {
    try {
      socket.close();
    } catch (IOException closedAlready) {
      // Its process has ended; nothing is lost.
    }
    process.close();
  }
}
