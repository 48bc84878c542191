package io.rejoin.it;

import java.io.IOException;
import java.io.InputStream;
import java.lang.reflect.InvocationTargetException;
import java.util.Arrays;

/**
 * Runs another main class in a process that ends when its parent does.
 *
 * <p>A child that is started through this class holds the reading end of a pipe from its parent.
 * When the parent goes, by whatever way (SIGKILL too), the pipe ends and the child exits. So a test
 * run that is killed leaves no process behind.
 */
public final class Leash {
  private Leash() {}

  /**
   * The first argument is the main class, the rest are its arguments.
   *
   * @param arguments as said
   * @throws Throwable what the main class throws
   */
  public static void main(String[] arguments) throws Throwable {
    Thread leash = new Thread(Leash::exitWhenParentIsGone, "leash");
    leash.setDaemon(true);
    leash.start();
    String[] rest = Arrays.copyOfRange(arguments, 1, arguments.length);
    try {
      Class.forName(arguments[0]).getMethod("main", String[].class).invoke(null, (Object) rest);
    } catch (InvocationTargetException thrown) {
      throw thrown.getCause();
    }
  }

  private static void exitWhenParentIsGone() {
    InputStream pipe = System.in;
    byte[] ignored = new byte[64];
    try {
      while (pipe.read(ignored) >= 0) {
        // Nothing is ever sent; only the end counts.
      }
    } catch (IOException broken) {
      // A broken pipe is an end, too.
    }
    // Not halt: a Spark worker kills its executors in a shutdown hook.
    System.exit(3);
  }
}
