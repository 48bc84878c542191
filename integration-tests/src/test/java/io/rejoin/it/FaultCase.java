package io.rejoin.it;

import io.rejoin.TrainingEvent;
import io.rejoin.TrainingEvent.Kind;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;

/**
 * One line of the table of faults that must be survived: what strikes whom when, in words, and how
 * a run is prepared for it.
 *
 * @param name a sentence
 * @param workers how many ranks
 * @param restarts how many restarts of ranks there must be: a fault without effect proves nothing
 * @param prepare adds the fault rules and whatever wakes or kills by event
 */
record FaultCase(String name, int workers, int restarts, Consumer<RejoinRun> prepare) {
  /** Rounds of every case; short, for there are many. */
  static final int ROUNDS = 20;

  private static final int MIDDLE = 9;
  private static final long INSIDE = 20_000;

  @Override
  public String toString() {
    return name;
  }

  /**
   * All cases for ranks that have an executor each. {@code random} is printed with its seed by the
   * caller.
   */
  static List<FaultCase> single(Random random) {
    List<FaultCase> all = new ArrayList<>();
    all.add(
        killed(
            "an executor is killed when its task has joined and loads data", Fault.of(1).joined()));
    all.add(
        killed(
            "an executor is killed before the first byte of boot, while the DMatrix is built",
            Fault.of(1).boot(0)));
    all.add(killed("an executor is killed in the sketch", Fault.of(2).boot(3_000)));
    all.add(killed("an executor is killed in the first round", Fault.of(1).version(0, INSIDE)));
    all.add(
        killed("an executor is killed in the middle round", Fault.of(1).version(MIDDLE, INSIDE)));
    all.add(
        killed("an executor is killed in the last round", Fault.of(1).version(ROUNDS - 1, INSIDE)));
    int rank = random.nextInt(3);
    int round = random.nextInt(ROUNDS);
    int bytes = random.nextInt(20_000);
    all.add(
        killed(
            "an executor is killed at a random byte (rank "
                + rank
                + ", round "
                + round
                + ", byte "
                + bytes
                + ")",
            Fault.of(rank).version(round, bytes)));
    all.add(
        killed("the executor of rank 0 is killed in a round", Fault.of(0).version(MIDDLE, INSIDE)));
    all.add(
        new FaultCase(
            "the executor of rank 0 is killed after the last round, before the driver has the"
                + " result",
            3,
            1,
            run -> {
              // The end must not be reached before rank 0 is struck, so rank 1 is frozen at its
              // entry into the last
              // version and goes on when rank 0 is lost.
              run.fault(Fault.of(1).version(ROUNDS, 0).stop())
                  .fault(Fault.of(0).finishing().kill());
              new ByEvent(run).when(e -> e.kind() == Kind.RANK_LOST && isRank(e, 0), 1, "CONT");
            }));
    all.add(
        new FaultCase(
            "a rank is killed again during its own rejoin, when it has its checkpoint",
            3,
            2,
            run ->
                run.fault(Fault.of(1).version(MIDDLE, INSIDE).kill())
                    .fault(Fault.of(1).incarnation(1).restored().kill())));
    all.add(
        new FaultCase(
            "a rank is killed again during its own rejoin, while it replays",
            3,
            2,
            run ->
                run.fault(Fault.of(1).version(MIDDLE, INSIDE).kill())
                    .fault(Fault.of(1).incarnation(1).replaying().kill())));
    all.add(
        new FaultCase(
            "a rank is killed three times in a row",
            3,
            3,
            run ->
                run.fault(Fault.of(1).version(3, INSIDE).kill())
                    .fault(Fault.of(1).incarnation(1).version(MIDDLE, INSIDE).kill())
                    .fault(Fault.of(1).incarnation(2).version(15, INSIDE).kill())));
    all.add(
        new FaultCase(
            "an executor is killed while another rank is being restored",
            3,
            2,
            run -> {
              run.fault(Fault.of(1).version(MIDDLE, INSIDE).kill());
              new ByEvent(run)
                  .when(
                      e ->
                          e.kind() == Kind.RANK_RESTORED
                              && isRank(e, 1)
                              && e.number("incarnation") == 1,
                      2,
                      "KILL");
            }));
    all.add(
        new FaultCase(
            "two of three executors are killed at once",
            3,
            2,
            run ->
                run.setting("spark.rejoin.input.replicas", "3")
                    .fault(Fault.of(1).version(MIDDLE, INSIDE).kill())
                    .fault(Fault.of(2).version(MIDDLE, INSIDE).kill())));
    all.add(
        new FaultCase(
            "all but one of four executors are killed at once",
            4,
            3,
            run ->
                run.setting("spark.rejoin.input.replicas", "4")
                    .fault(Fault.of(1).version(MIDDLE, INSIDE).kill())
                    .fault(Fault.of(2).version(MIDDLE, INSIDE).kill())
                    .fault(Fault.of(3).version(MIDDLE, INSIDE).kill())));
    all.add(
        new FaultCase(
            "a frozen executor is declared lost, replaced, and fenced when it wakes",
            3,
            1,
            run -> {
              run.fault(Fault.of(1).version(MIDDLE, INSIDE).stop());
              new ByEvent(run).when(e -> e.kind() == Kind.RANK_LOST && isRank(e, 1), 1, "CONT");
            }));
    all.add(
        new FaultCase(
            "an executor that freezes and wakes before it is declared lost goes on as if nothing"
                + " had been",
            3,
            0,
            run -> {
              run.fault(Fault.of(1).version(MIDDLE, INSIDE).stop());
              new ByEvent(run).when(e -> e.kind() == Kind.FAULT_FIRED, 1, "CONT");
            }));
    all.add(
        new FaultCase(
            "a link between two living ranks is cut and made anew",
            3,
            0,
            run -> run.fault(Fault.of(1).version(MIDDLE, INSIDE).cut(0))));
    all.add(
        new FaultCase(
            "a worker throws in a round; its executor stays",
            3,
            1,
            run -> run.fault(Fault.of(1).version(MIDDLE, INSIDE).throwError())));
    return all;
  }

  /** The five that every pair of versions must pass. */
  static List<FaultCase> main() {
    return List.of(
        killed("an executor is killed in boot", Fault.of(1).boot(0)),
        killed("an executor is killed in the middle round", Fault.of(1).version(MIDDLE, INSIDE)),
        killed("the executor of rank 0 is killed in a round", Fault.of(0).version(MIDDLE, INSIDE)),
        killed("an executor is killed in the last round", Fault.of(2).version(ROUNDS - 1, INSIDE)),
        new FaultCase(
            "a worker throws in a round; its executor stays",
            3,
            1,
            run -> run.fault(Fault.of(1).version(MIDDLE, INSIDE).throwError())));
  }

  /**
   * One to three kills of random ranks at random bytes of random rounds, never more than one death
   * of a rank.
   */
  static FaultCase randomKills(Random random) {
    List<Integer> ranks = new ArrayList<>(List.of(0, 1, 2));
    java.util.Collections.shuffle(ranks, random);
    int deaths = 1 + random.nextInt(3);
    List<String> rules = new ArrayList<>();
    StringBuilder name = new StringBuilder("random kills:");
    for (int rank : ranks.subList(0, deaths)) {
      int round = random.nextInt(ROUNDS);
      int bytes = random.nextInt(20_000);
      rules.add(Fault.of(rank).version(round, bytes).kill());
      name.append(" rank ")
          .append(rank)
          .append(" round ")
          .append(round)
          .append(" byte ")
          .append(bytes)
          .append(';');
    }
    return new FaultCase(
        name.toString(),
        3,
        deaths,
        run -> rules.forEach(run.setting("spark.rejoin.input.replicas", "4")::fault));
  }

  private static FaultCase killed(String name, Fault fault) {
    return new FaultCase(name, 3, 1, run -> run.fault(fault.kill()));
  }

  private static boolean isRank(TrainingEvent event, int rank) {
    return event.rank().isPresent() && event.rank().getAsInt() == rank;
  }

  /**
   * Signals the process of a rank when an event comes: what a rule inside that process cannot do by
   * itself.
   */
  private static final class ByEvent {
    private final Map<String, Long> processOf = new ConcurrentHashMap<>();
    private final Map<Integer, String> firstExecutorOf = new ConcurrentHashMap<>();
    private final RejoinRun run;

    ByEvent(RejoinRun run) {
      this.run = run;
      run.listen(
          event -> {
            if (event.kind() == Kind.AGENT_JOINED) {
              processOf.put(event.text("executor"), event.number("pid"));
            } else if (event.kind() == Kind.RANK_JOINED) {
              firstExecutorOf.putIfAbsent(event.rank().getAsInt(), event.text("executor"));
            }
          });
    }

    /** The signal goes to the process that the rank's first incarnation runs in, once. */
    void when(java.util.function.Predicate<TrainingEvent> moment, int rank, String signal) {
      boolean[] sent = {false};
      run.expectSignal();
      run.listen(
          event -> {
            if (!sent[0] && moment.test(event)) {
              sent[0] = true;
              Long process = processOf.get(firstExecutorOf.get(rank));
              if (process == null || !Processes.signal(process, signal)) {
                throw new IllegalStateException(
                    "no process of rank " + rank + " to send SIG" + signal + " to");
              }
              run.signalled();
            }
          });
    }
  }
}
