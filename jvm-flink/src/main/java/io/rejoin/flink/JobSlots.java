package io.rejoin.flink;

import io.rejoin.RejoinException;
import io.rejoin.settings.SettingValues;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.flink.api.common.operators.SlotSharingGroup;
import org.apache.flink.api.dag.Transformation;
import org.apache.flink.configuration.DeploymentOptions;
import org.apache.flink.configuration.ReadableConfig;
import org.apache.flink.configuration.ResourceManagerOptions;
import org.apache.flink.configuration.TaskManagerOptions;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.graph.StreamGraphGenerator;

/**
 * How many slots a job needs at the same time, by slot sharing group: as many as the widest
 * operator of each group has subtasks.
 */
final class JobSlots {
  private final Map<Transformation<?>, String> groups = new HashMap<>();
  private final Map<String, Integer> slots = new TreeMap<>();

  private JobSlots() {}

  /** Gives ranks the slot sharing group that is set for them. */
  static void place(SingleOutputStreamOperator<?> ranks, SettingValues settings) {
    String group = settings.text(FlinkSettings.SLOT_SHARING_GROUP);
    if (!group.isEmpty()) {
      ranks.slotSharingGroup(group);
    }
  }

  /** Those that all of these need while they run together. */
  static JobSlots of(Collection<Transformation<?>> operators) {
    JobSlots job = new JobSlots();
    for (Transformation<?> one : operators) {
      job.slots.merge(job.group(one), Math.max(1, one.getParallelism()), Math::max);
    }
    return job;
  }

  /** A group goes on downstream, as long as all inputs are of it; by the rule of Flink's graph. */
  private String group(Transformation<?> one) {
    String known = groups.get(one);
    if (known == null) {
      known = one.getSlotSharingGroup().map(SlotSharingGroup::getName).orElse(null);
      if (known == null) {
        Set<String> above = new HashSet<>();
        one.getInputs().forEach(input -> above.add(group(input)));
        known =
            above.size() == 1
                ? above.iterator().next()
                : StreamGraphGenerator.DEFAULT_SLOT_SHARING_GROUP;
      }
      groups.put(one, known);
    }
    return known;
  }

  /** How many groups there are. */
  int groups() {
    return slots.size();
  }

  /** The slots of all groups. */
  int count() {
    return slots.values().stream().mapToInt(Integer::intValue).sum();
  }

  /**
   * Refuses a job that can never have its slots, as far as its configuration says.
   *
   * @throws RejoinException BAD_ARGUMENT with how many there are, and the setting to raise
   */
  void check(ReadableConfig configuration) {
    int most = configuration.get(ResourceManagerOptions.MAX_SLOT_NUM);
    if (count() > most) {
      throw refused(
          ResourceManagerOptions.MAX_SLOT_NUM.key() + " allows " + most,
          "raise it to at least " + count());
    }
    if ("local".equals(configuration.get(DeploymentOptions.TARGET))) {
      int processes = configuration.get(TaskManagerOptions.MINI_CLUSTER_NUM_TASK_MANAGERS);
      int widest = slots.values().stream().mapToInt(Integer::intValue).max().orElse(0);
      int each =
          configuration
              .getOptional(TaskManagerOptions.NUM_TASK_SLOTS)
              .orElse((widest + processes - 1) / processes);
      if (count() > processes * each) {
        throw refused(
            "a local environment has " + processes * each,
            "set "
                + TaskManagerOptions.NUM_TASK_SLOTS.key()
                + " to at least "
                + (count() + processes - 1) / processes);
      }
    }
  }

  private RejoinException refused(String seen, String advice) {
    return new RejoinException(
        RejoinException.Code.BAD_ARGUMENT,
        "the job needs "
            + count()
            + " slots at the same time (by slot sharing group: "
            + slots
            + "), and "
            + seen
            + ": "
            + advice
            + ", or lower the parallelism");
  }
}
