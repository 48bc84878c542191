package io.rejoin.it;

/**
 * Writes fault rules: who, when, what. A rule waits for an event of its rank, never for a clock.
 */
final class Fault {
  private final int rank;
  private int incarnation;
  private String moment;

  private Fault(int rank) {
    this.rank = rank;
  }

  /** Hits this rank's first incarnation, unless another one is named. */
  static Fault of(int rank) {
    return new Fault(rank);
  }

  /** Hits this start of the rank: 1 is its first restart. */
  Fault incarnation(int which) {
    incarnation = which;
    return this;
  }

  /** When its task has joined: its data are about to be loaded. */
  Fault joined() {
    return at("at=join");
  }

  /** When its worker has sent so many bytes in boot: 0 before anything, more in the sketch. */
  Fault boot(long bytes) {
    return at("version=boot,at=bytes:" + bytes);
  }

  /** When its worker has sent so many bytes since it entered this version. */
  Fault version(int version, long bytes) {
    return at("version=" + version + ",at=bytes:" + bytes);
  }

  /** When it, restarted, has fetched its checkpoint. */
  Fault restored() {
    return at("at=restored");
  }

  /** When it, restarted, has been sent the first replayed byte. */
  Fault replaying() {
    return at("at=recovery");
  }

  /** When it has reported its end and the job's end is not reached yet. */
  Fault finishing() {
    return at("at=finalize");
  }

  /** SIGKILL. */
  String kill() {
    return rule("kill");
  }

  /** SIGSTOP; the test wakes it. */
  String stop() {
    return rule("stop");
  }

  /** The rank's worker is freed with an error, as if its task had thrown. */
  String throwError() {
    return rule("throw");
  }

  /** The data link to this peer is reset. */
  String cut(int peer) {
    return rule("cut:" + peer);
  }

  /** Nothing is done: the rule only notifies that its moment came. */
  String notice() {
    return rule("notify");
  }

  private Fault at(String what) {
    moment = what;
    return this;
  }

  private String rule(String action) {
    return "rank=" + rank + ",incarnation=" + incarnation + "," + moment + ",do=" + action;
  }
}
