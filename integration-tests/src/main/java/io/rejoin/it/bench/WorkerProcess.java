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
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** The parent's end of a {@link WorkerMain}. */
public final class WorkerProcess implements AutoCloseable {
  private static final int START_MILLIS = 60_000;

  private final String name;
  private final Host host;
  private final JavaProcess process;
  private final Socket socket;
  private final ObjectOutputStream out;
  private final ObjectInputStream in;

  private WorkerProcess(String name, Host host, JavaProcess process, Socket socket)
      throws IOException {
    this.name = name;
    this.host = host;
    this.process = process;
    this.socket = socket;
    this.out = new ObjectOutputStream(socket.getOutputStream());
    out.flush();
    this.in = new ObjectInputStream(socket.getInputStream());
  }

  /**
   * Starts one on a host and waits until it is there; {@code here} is the one that we are on. Its
   * output goes to a file of its name.
   */
  public static WorkerProcess start(
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

  /** Has something done there, when all before is done; a failure there is the answer's. */
  public CompletableFuture<Serializable> ask(Work work) {
    CompletableFuture<Serializable> answer = new CompletableFuture<>();
    Thread asking = new Thread(() -> ask(work, answer), "answer-of-" + name);
    asking.setDaemon(true);
    asking.start();
    return answer;
  }

  private synchronized void ask(Work work, CompletableFuture<Serializable> answer) {
    try {
      out.writeObject(work);
      out.reset();
      out.flush();
      WorkerMain.Answer came = (WorkerMain.Answer) in.readObject();
      if (came.thrown() != null) {
        throw new IllegalStateException(name + ": " + came.thrown());
      }
      answer.complete(came.result());
    } catch (IOException | ClassNotFoundException | IllegalStateException failed) {
      answer.completeExceptionally(failed);
    }
  }

  /** Waits for an answer, at most so long; a failure there is a failure here. */
  public static Serializable await(CompletableFuture<Serializable> answer, long seconds) {
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

  Host host() {
    return host;
  }

  long pid() {
    return process.process().pid();
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
