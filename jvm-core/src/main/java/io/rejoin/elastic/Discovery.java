package io.rejoin.elastic;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;

/** Names the slots of an elastic run, for the program that starts it. */
@FunctionalInterface
public interface Discovery {
  /**
   * The slots that there are now: host names with their numbers of slots. {@code localhost} is this
   * machine.
   *
   * @throws Exception when they can't be told; those that were named last hold then, and the
   *     launcher says why, once
   */
  Map<String, Integer> slots() throws Exception;

  /**
   * Starts a launcher that is told on its standard input which slots there are, as {@code rejoin
   * run --discovery - -n 4 --min 2 --max 8 -- ./train}, and asks the discovery once a second, in a
   * daemon thread.
   *
   * @param launcher the command; where its output goes is the caller's to say
   * @return the launcher's process, to be waited for; {@link Process#destroy()} ends the run in
   *     order. Should this JVM end first, the run goes on with the slots that were named last.
   * @throws IOException when the launcher can't be started
   */
  static Process launch(ProcessBuilder launcher, Discovery discovery) throws IOException {
    Process process = launcher.redirectInput(ProcessBuilder.Redirect.PIPE).start();
    Thread asking = new Thread(() -> tell(process.getOutputStream(), discovery), "rejoin-slots");
    asking.setDaemon(true);
    asking.start();
    return process;
  }

  private static void tell(OutputStream listener, Discovery discovery) {
    try (listener) {
      while (true) {
        // An empty line ends a listing.
        listener.write((listing(discovery) + "\n").getBytes(StandardCharsets.UTF_8));
        listener.flush();
        Thread.sleep(1000);
      }
    } catch (IOException ended) {
      // The launcher has ended.
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    }
  }

  private static String listing(Discovery discovery) throws InterruptedException {
    try {
      StringBuilder listing = new StringBuilder();
      discovery
          .slots()
          .forEach((host, slots) -> listing.append(host).append(':').append(slots).append('\n'));
      return listing.toString();
    } catch (InterruptedException interrupted) {
      throw interrupted;
    } catch (Exception failure) {
      return "! " + failure.toString().replaceAll("\\s+", " ") + "\n";
    }
  }
}
