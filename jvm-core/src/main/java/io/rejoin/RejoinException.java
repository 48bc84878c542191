package io.rejoin;

/**
 * Why something cannot go on. The code is stable and says what kind of failure it is; the message
 * says what was expected, what was seen and what to do. Never decide anything by the message.
 */
public final class RejoinException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /** Stable kinds of failure, the same as on the wire and in the native library. */
  public enum Code {
    /** An argument or a setting is not usable. Nothing was started. */
    BAD_ARGUMENT,
    /** A handle was used after it was closed, or in a state that doesn't allow the call. */
    BAD_STATE,
    /**
     * This incarnation was declared lost or superseded; a newer one may be at work. Retry the task.
     */
    FENCED,
    /** All ranks go back to an older version; run again from there. */
    ROLLED_BACK,
    /**
     * A rank did not repeat itself, or two ranks hold different bytes under one name. The job is
     * over.
     */
    MISMATCH,
    /** Ranks were missing until a deadline. */
    MEMBERS_MISSING,
    /**
     * More deaths than the framework will retry, or no process is left that holds what is needed.
     */
    UNRECOVERABLE,
    /** The tracker could not be reached until a deadline. */
    TRACKER_UNREACHABLE,
    /** The user or the framework cancelled. */
    CANCELLED,
    /** A socket, file or thread failed, or the task's own code in a way that a retry may heal. */
    IO,
    /** The memory and disk budget for logs is used up. */
    OUT_OF_SPACE,
    /** Library, wire or terms of the two sides do not fit each other. */
    INCOMPATIBLE,
    /** The training code failed in a way that will repeat. */
    TRAINING_FAILED,
    /** A wait reached its deadline. */
    TIMED_OUT,
    /** A defect in Rejoin. */
    INTERNAL,
    /** The stored input of a rank is lost, and making it anew gave other rows. The job is over. */
    INPUT_LOST,
    /**
     * The world has changed: this rank is another one, in a world of another size. Run again from
     * the newest version.
     */
    RESIZED;

    /**
     * Whether trying the same again would fail the same way: such a failure ends the job at once.
     */
    public boolean willRepeat() {
      switch (this) {
        case FENCED:
        case ROLLED_BACK:
        case RESIZED:
        case IO:
        case TIMED_OUT:
        case TRACKER_UNREACHABLE:
          return false;
        default:
          return true;
      }
    }

    /** The code of this name; {@link #INTERNAL} for one that this version doesn't know. */
    static Code of(String name) {
      for (Code code : values()) {
        if (code.name().equals(name)) {
          return code;
        }
      }
      return INTERNAL;
    }
  }

  private final Code code;

  /** A failure of this code; the message says what was expected, what was seen and what to do. */
  public RejoinException(Code code, String message) {
    this(code, message, null);
  }

  /** A failure of this code with what caused it. */
  public RejoinException(Code code, String message, Throwable cause) {
    super(code + ": " + message, cause);
    this.code = code;
  }

  /** How the native library makes one. */
  public RejoinException(String code, String message) {
    this(Code.of(code), message, null);
  }

  /** What kind of failure it is. */
  public Code code() {
    return code;
  }

  /** The message without the code in front. */
  public String text() {
    return getMessage().substring(code.name().length() + 2);
  }
}
