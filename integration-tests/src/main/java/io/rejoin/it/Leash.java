package io.rejoin.it;

import java.io.IOException;
import java.io.InputStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.jar.Manifest;

/**
 * Runs another main class in a process that ends when its parent does.
 *
 * <p>A child that is started through this class holds the reading end of a pipe from its parent.
 * When the parent goes, by whatever way (SIGKILL too), the pipe ends and the child exits. So a test
 * run that is killed leaves no process behind.
 *
 * <p>A child whose class path isn't ours has {@link #jar} on it, or, when its command line isn't
 * ours either, as a {@code -javaagent}.
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
    premain("");
    String[] rest = Arrays.copyOfRange(arguments, 1, arguments.length);
    try {
      Class.forName(arguments[0]).getMethod("main", String[].class).invoke(null, (Object) rest);
    } catch (InvocationTargetException thrown) {
      throw thrown.getCause();
    }
  }

  /**
   * Where the JVM enters this class as an agent.
   *
   * @param unused an agent has options; this one needs none
   */
  public static void premain(String unused) {
    Thread leash = new Thread(Leash::exitWhenParentIsGone, "leash");
    leash.setDaemon(true);
    leash.start();
  }

  /** Writes a jar with this class alone, which is an agent, too. */
  public static void jar(Path file) throws IOException {
    Manifest manifest = new Manifest();
    manifest.getMainAttributes().putValue("Premain-Class", Leash.class.getName());
    Jars.write(file, manifest, Leash.class);
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
