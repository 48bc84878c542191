package io.rejoin.spark;

import io.rejoin.RejoinException;
import java.util.Optional;
import org.apache.spark.api.python.PythonException;

/** What a task's Python worker has failed with, which Spark knows as a traceback alone. */
final class PythonFailure {
  private static final String OURS = "\nrejoin._errors.RejoinError: ";
  private static final String NO_PACKAGE = "\nModuleNotFoundError: No module named 'rejoin";

  private PythonFailure() {}

  /** The failure that ended the traceback; a missing package of ours is one, too. */
  static Optional<RejoinException> of(Throwable thrown) {
    String text = thrown instanceof PythonException ? String.valueOf(thrown.getMessage()) : "";
    if (text.contains(NO_PACKAGE)) {
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
