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
 * A process that does {@link Work} for its parent, one piece after the other. It connects to the
 * parent's port and proves that it is the parent's child with a token from its environment.
 */
public final class WorkerMain {
  /** The name of the token in the environment, which other users of the machine can't read. */
  static final String TOKEN = "REJOIN_BENCH_TOKEN";

  private WorkerMain() {}

  /** What came of it: a result, or a text that says what was thrown. */
  record Answer(Serializable result, String thrown) implements Serializable {}

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
        out.writeObject(answer((Work) in.readObject()));
        out.reset();
        out.flush();
      }
    } catch (EOFException parentIsDone) {
      System.exit(0);
    }
  }

  private static Answer answer(Work work) {
    try {
      return new Answer(work.run(), null);
    } catch (Throwable thrown) {
      StringWriter text = new StringWriter();
      thrown.printStackTrace(new PrintWriter(text));
      return new Answer(null, text.toString());
    }
  }
}
