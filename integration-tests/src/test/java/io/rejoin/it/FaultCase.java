package io.rejoin.it;

import io.rejoin.TrainingEvent;
import io.rejoin.TrainingEvent.Kind;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BiConsumer;
import java.util.function.Function;
import java.util.function.Predicate;
import java.util.stream.Collectors;

/**
 * One line of the table of faults that must be survived: which fault meets which rank and when, in
 * words, and how a run is prepared for it.
 *
 * @param name a sentence
 * @param workers how many ranks
 * @param restarts how many restarts of ranks there must be: a fault without effect proves nothing
 * @param shape of the session that it runs on
 * @param prepare adds the fault rules and whatever wakes or kills by event, for a training that
 *     undisturbed would be like this
 */
record FaultCase(
    String name,
    int workers,
    int restarts,
    Sessions.Shape shape,
    BiConsumer<RejoinRun, Calm> prepare) {
  /** Rounds of every case; short, for there are many. */
  static final int ROUNDS = 20;

  /** One for ranks that have an executor each. */
  FaultCase(String name, int workers, int restarts, BiConsumer<RejoinRun, Calm> prepare) {
    this(name, workers, restarts, Sessions.Shape.SINGLE, prepare);
  }

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
            "an executor is killed when its task has joined and loads data",
            calm -> Fault.of(1).joined()));
    all.add(
        killed(
            "an executor is killed before the first byte of boot, while the DMatrix is built",
            calm -> Fault.of(1).boot(0)));
    all.add(
        new FaultCase(
            "an executor is killed in the sketch",
            3,
            1,
            (run, calm) -> run.fault(inSketch(run.recipe()).kill())));
    all.add(
        killed(
            "an executor is killed in the first round",
            calm -> Fault.of(1).version(0, calm.inside())));
    all.add(
        killed(
            "an executor is killed in the middle round",
            calm -> Fault.of(1).version(calm.middle(), calm.inside())));
    all.add(
        killed(
            "an executor is killed in the last round",
            calm -> Fault.of(1).version(calm.last(), calm.inside())));
    Anywhere anywhere = Anywhere.of(random.nextInt(3), random);
    all.add(killed("an executor is killed at a random byte: " + anywhere, anywhere::fault));
    all.add(
        killed(
            "the executor of rank 0 is killed in a round",
            calm -> Fault.of(0).version(calm.middle(), calm.inside())));
    all.add(
        new FaultCase(
            "the executor of rank 0 is killed after the last round, before the driver has the"
                + " result",
            3,
            1,
            (run, calm) -> {
              // The end must not be reached before rank 0 is struck, so rank 1 is frozen at its
              // entry into the last
              // version and goes on when rank 0 is lost.
              run.fault(Fault.of(1).version(calm.rounds(), 0).stop())
                  .fault(Fault.of(0).finishing().kill());
              new ByEvent(run).when(e -> e.kind() == Kind.RANK_LOST && isRank(e, 0), 1, "CONT");
            }));
    all.add(
        new FaultCase(
            "a rank is killed again during its own rejoin, when it has its checkpoint",
            3,
            2,
            (run, calm) ->
                run.fault(Fault.of(1).version(calm.middle(), calm.inside()).kill())
                    .fault(Fault.of(1).incarnation(1).restored().kill())));
    all.add(
        new FaultCase(
            "a rank is killed again during its own rejoin, while it replays",
            3,
            2,
            (run, calm) ->
                run.fault(Fault.of(1).version(calm.middle(), calm.inside()).kill())
                    .fault(Fault.of(1).incarnation(1).replaying().kill())));
    all.add(
        new FaultCase(
            "a rank is killed three times in a row",
            3,
            3,
            (run, calm) ->
                run.fault(Fault.of(1).version(calm.round(0.15), calm.inside()).kill())
                    .fault(Fault.of(1).incarnation(1).version(calm.middle(), calm.inside()).kill())
                    .fault(
                        Fault.of(1)
                            .incarnation(2)
                            .version(calm.round(0.75), calm.inside())
                            .kill())));
    all.add(
        new FaultCase(
            "an executor is killed while another rank is being restored",
            3,
            2,
            (run, calm) -> {
              run.fault(Fault.of(1).version(calm.middle(), calm.inside()).kill());
              new ByEvent(run)
                  .when(
                      e ->
                          e.kind() == Kind.RESTORED && isRank(e, 1) && e.number("incarnation") == 1,
                      2,
                      "KILL");
            }));
    all.add(
        new FaultCase(
            "two of three executors are killed at once",
            3,
            2,
            (run, calm) ->
                run.setting("spark.rejoin.input.replicas", "3")
                    .fault(Fault.of(1).version(calm.middle(), calm.inside()).kill())
                    .fault(Fault.of(2).version(calm.middle(), calm.inside()).kill())));
    all.add(
        new FaultCase(
            "all but one of four executors are killed at once",
            4,
            3,
            (run, calm) ->
                run.setting("spark.rejoin.input.replicas", "4")
                    .fault(Fault.of(1).version(calm.middle(), calm.inside()).kill())
                    .fault(Fault.of(2).version(calm.middle(), calm.inside()).kill())
                    .fault(Fault.of(3).version(calm.middle(), calm.inside()).kill())));
    all.add(
        new FaultCase(
            "a frozen executor is declared lost, replaced, and fenced when it wakes",
            3,
            1,
            (run, calm) -> {
              run.fault(Fault.of(1).version(calm.middle(), calm.inside()).stop());
              new ByEvent(run).when(e -> e.kind() == Kind.RANK_LOST && isRank(e, 1), 1, "CONT");
            }));
    all.add(
        new FaultCase(
            "an executor that freezes and wakes before it is declared lost goes on as if nothing"
                + " had been",
            3,
            0,
            (run, calm) -> {
              run.fault(Fault.of(1).version(calm.middle(), calm.inside()).stop());
              new ByEvent(run).when(e -> e.kind() == Kind.FAULT_FIRED, 1, "CONT");
            }));
    all.add(
        new FaultCase(
            "a link between two living ranks is cut and made anew",
            3,
            0,
            (run, calm) -> run.fault(Fault.of(1).version(calm.middle(), calm.inside()).cut(0))));
    all.add(
        new FaultCase(
            "a worker throws in a round; its executor stays",
            3,
            1,
            (run, calm) ->
                run.fault(Fault.of(1).version(calm.middle(), calm.inside()).throwError())));
    return all;
  }

  /** The five that every pair of versions must pass. */
  static List<FaultCase> main() {
    return List.of(
        killed("an executor is killed in boot", calm -> Fault.of(1).boot(0)),
        killed(
            "an executor is killed in the middle round",
            calm -> Fault.of(1).version(calm.middle(), calm.inside())),
        killed(
            "the executor of rank 0 is killed in a round",
            calm -> Fault.of(0).version(calm.middle(), calm.inside())),
        killed(
            "an executor is killed in the last round",
            calm -> Fault.of(2).version(calm.last(), calm.inside())),
        new FaultCase(
            "a worker throws in a round; its executor stays",
            3,
            1,
            (run, calm) ->
                run.fault(Fault.of(1).version(calm.middle(), calm.inside()).throwError())));
  }

  /**
   * One to three kills of random ranks at random bytes of random rounds, never more than one death
   * of a rank.
   */
  static FaultCase randomKills(Random random) {
    List<Integer> ranks = new ArrayList<>(List.of(0, 1, 2));
    java.util.Collections.shuffle(ranks, random);
    int deaths = 1 + random.nextInt(3);
    List<Anywhere> kills =
        ranks.subList(0, deaths).stream()
            .map(rank -> Anywhere.of(rank, random))
            .collect(Collectors.toList());
    return new FaultCase(
        "random kills: " + kills.stream().map(Anywhere::toString).collect(Collectors.joining(", ")),
        3,
        deaths,
        (run, calm) -> {
          run.setting("spark.rejoin.input.replicas", "4");
          kills.forEach(kill -> run.fault(kill.fault(calm).kill()));
        });
  }

  /** A random place in a training: shares of its rounds and of what a round sends. */
  private record Anywhere(int rank, double round, double bytes) {
    static Anywhere of(int rank, Random random) {
      return new Anywhere(rank, random.nextDouble(), random.nextDouble());
    }

    Fault fault(Calm calm) {
      return Fault.of(rank).version(calm.round(round), calm.byteOf(bytes));
    }

    @Override
    public String toString() {
      return String.format(
          Locale.ROOT,
          "rank %d after %.0f %% of the rounds and %.0f %% of a round's bytes",
          rank,
          100 * round,
          100 * bytes);
    }
  }

  /** {@code approx} sketches at the beginning of every round, the others before the first one. */
  private static Fault inSketch(Recipe recipe) {
    Fault fault = Fault.of(2);
    return recipe == Recipe.APPROX ? fault.version(0, 1_000) : fault.boot(3_000);
  }

  private static FaultCase killed(String name, Function<Calm, Fault> fault) {
    return new FaultCase(name, 3, 1, (run, calm) -> run.fault(fault.apply(calm).kill()));
  }

  private static boolean isRank(TrainingEvent event, int rank) {
    return event.rank().isPresent() && event.rank().getAsInt() == rank;
  }

  /**
   * Signals the process of a rank when an event comes: what a rule inside that process cannot do by
   * itself.
   */
  static final class ByEvent {
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
    void when(Predicate<TrainingEvent> moment, int rank, String signal) {
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
