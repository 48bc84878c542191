package io.rejoin.it.bench;

import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.PrintWriter;
import java.io.Serializable;
import java.io.StringWriter;
import java.net.Socket;

/**
 * A process that does {@link Work} for its parent, each piece on a thread of its own. It connects
 * to the parent's port and proves that it is the parent's child with a token from its environment.
 */
public final class WorkerMain {
  /** The name of the token in the environment, which other users of the machine can't read. */
  static final String TOKEN = "REJOIN_BENCH_TOKEN";

  private WorkerMain() {}

  /** An order: its number, and what is to be done. */
  record Order(int number, Work work) implements Serializable {}

  /** What came of it: a result, or a text that says what was thrown. */
  record Answer(int number, Serializable result, String thrown) implements Serializable {}

  /** The arguments are the parent's address and port. */
  public static void main(String[] arguments) throws IOException, ClassNotFoundException {
    Socket socket = new Socket(arguments[0], Integer.parseInt(arguments[1]));
    socket.setTcpNoDelay(true);
    new DataOutputStream(socket.getOutputStream()).writeUTF(System.getenv(TOKEN));
    ObjectOutputStream out = new ObjectOutputStream(socket.getOutputStream());
    out.flush();
    ObjectInputStream in = new ObjectInputStream(socket.getInputStream());
    try {
      for (; ; ) {
        Order order = (Order) in.readObject();
        new Thread(() -> answer(order, out), "work-" + order.number()).start();
      }
    } catch (EOFException parentIsDone) {
      System.exit(0);
    }
  }

  private static void answer(Order order, ObjectOutputStream out) {
    Answer answer;
    try {
      answer = new Answer(order.number(), order.work().run(), null);
    } catch (Throwable thrown) {
      StringWriter text = new StringWriter();
      thrown.printStackTrace(new PrintWriter(text));
      answer = new Answer(order.number(), null, text.toString());
    }
    synchronized (out) {
      try {
        out.writeObject(answer);
        out.reset();
        out.flush();
      } catch (IOException gone) {
        System.exit(4); // Without a parent there is nothing to do.
      }
    }
  }
}
