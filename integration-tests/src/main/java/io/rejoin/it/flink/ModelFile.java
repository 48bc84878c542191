package io.rejoin.it.flink;

import io.rejoin.flink.TrainedModel;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.stream.Collectors;
import org.apache.flink.api.common.functions.MapFunction;

/**
 * Where a job's models go: a line for each version in one file, and the last model in another one,
 * which is there from one moment to the next.
 */
public final class ModelFile implements MapFunction<TrainedModel, TrainedModel> {
  private static final long serialVersionUID = 1L;

  private final String folder;
  private final List<JobFault> faults;
  // Which attempt of rank 0's task writes: each has an instance of its own.
  private transient String attempt;

  /** In this folder, which has to be there; with those of these faults that come downstream. */
  ModelFile(Path folder, List<JobFault> faults) {
    this.folder = folder.toString();
    this.faults = new ArrayList<>(faults);
  }

  /**
   * A model that came downstream.
   *
   * @param attempt of the task that wrote it, by a name of its own
   * @param version its version
   * @param digest of its bytes
   */
  record Line(String attempt, int version, String digest) {}

  @Override
  public TrainedModel map(TrainedModel model) throws IOException {
    for (JobFault fault : faults) {
      fault.fire(0, model.getVersion(), JobFault.Moment.DOWNSTREAM);
    }
    if (attempt == null) {
      attempt = UUID.randomUUID().toString();
    }
    String digest = SplitModel.of(model.getBytes()).digest();
    Files.writeString(
        versions(Path.of(folder)),
        attempt + " " + model.getVersion() + " " + digest + "\n",
        StandardOpenOption.CREATE,
        StandardOpenOption.APPEND);
    if (model.isLast()) {
      Path file = last(Path.of(folder));
      Path whole = Files.write(file.resolveSibling(attempt), model.getBytes());
      Files.move(whole, file, StandardCopyOption.ATOMIC_MOVE);
    }
    return model;
  }

  private static Path versions(Path folder) {
    return folder.resolve("versions");
  }

  private static Path last(Path folder) {
    return folder.resolve("model");
  }

  /** All models that came downstream until now, in their order. */
  static List<Line> lines(Path folder) throws IOException {
    if (!Files.exists(versions(folder))) {
      return List.of();
    }
    return Files.readAllLines(versions(folder)).stream()
        .map(line -> line.split(" "))
        .map(part -> new Line(part[0], Integer.parseInt(part[1]), part[2]))
        .collect(Collectors.toList());
  }

  /** The last model; there is one when the job has finished. */
  static SplitModel model(Path folder) throws IOException {
    return SplitModel.of(Files.readAllBytes(last(folder)));
  }
}
