package io.rejoin.spark;

import io.rejoin.RejoinException;
import java.util.Optional;
import java.util.regex.Pattern;
import org.apache.spark.api.python.PythonException;

/** What a task's Python worker has failed with, which Spark knows as a traceback alone. */
final class PythonFailure {
  private static final String TRACEBACK = "Traceback (most recent call last):";
  private static final String OURS = "\nrejoin._errors.RejoinError: ";
  private static final Pattern NO_PACKAGE =
      Pattern.compile("^ModuleNotFoundError: No module named 'rejoin['.]", Pattern.MULTILINE);

  private PythonFailure() {}

  /** The failure that ended the traceback; a missing package of ours is one, too. */
  static Optional<RejoinException> of(Throwable thrown) {
    String all = thrown instanceof PythonException ? String.valueOf(thrown.getMessage()) : "";
    // What is before was the cause of what ended it, and may pass.
    String text = all.substring(Math.max(0, all.lastIndexOf(TRACEBACK)));
    if (NO_PACKAGE.matcher(text).find()) {
      return Optional.of(
          new RejoinException(
              RejoinException.Code.INCOMPATIBLE,
              "its Python workers have no package rejoin; expected it on every host that runs"
                  + " executors (docs/guides/pyspark.md)",
              thrown));
    }
    int begin = text.lastIndexOf(OURS);
    int colon = begin < 0 ? -1 : text.indexOf(": ", begin + OURS.length());
    if (colon < 0) {
      return Optional.empty();
    }
    return code(text.substring(begin + OURS.length(), colon))
        .map(code -> new RejoinException(code, text.substring(colon + 2).trim(), thrown));
  }

  private static Optional<RejoinException.Code> code(String name) {
    try {
      return Optional.of(RejoinException.Code.valueOf(name));
    } catch (IllegalArgumentException e) {
      return Optional.empty(); // of another version
    }
  }
}
