package io.rejoin.spark;

import io.rejoin.RejoinException;
import java.io.IOException;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.Arrays;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OneRowRelation;
import org.apache.spark.sql.catalyst.plans.logical.Range;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;

/**
 * What a data set is computed from, as a digest that is the same in another application for the
 * same query over the same files: of its analyzed plan without the numbers that Spark gives
 * columns, and of each file's name, length and time. The code of user-defined functions is in no
 * plan.
 */
final class PlanDigest {
  private final MessageDigest digest;
  private String unknown;

  /** {@code digest} takes in what the data set is computed from. */
  PlanDigest(MessageDigest digest) {
    this.digest = digest;
  }

  void add(Dataset<?> dataset) {
    add(dataset.queryExecution().analyzed().canonicalized());
    Configuration configuration = dataset.sparkSession().sparkContext().hadoopConfiguration();
    String[] files = dataset.inputFiles();
    Arrays.sort(files);
    for (String file : files) {
      add(file, configuration);
    }
  }

  /** The first source whose rows the digest doesn't tell apart from others; null for none. */
  String unknown() {
    return unknown;
  }

  private void add(LogicalPlan plan) {
    add(plan.simpleString(Integer.MAX_VALUE));
    ScalaCollections.rest(plan.children().iterator()).forEach(this::add);
    if (plan.subqueries().nonEmpty()) {
      // Their files are not among the data set's.
      isUnknown("a subquery");
    }
    if (plan instanceof LocalRelation) {
      LocalRelation rows = (LocalRelation) plan;
      UnsafeProjection bytes = UnsafeProjection.create(rows.schema());
      for (InternalRow row : ScalaCollections.rest(rows.data().iterator())) {
        digest.update(bytes.apply(row).getBytes());
      }
    } else if (isFiles(plan)) {
      addFormat((HadoopFsRelation) ((LogicalRelation) plan).relation());
    } else if (plan.children().isEmpty() && !isComputed(plan)) {
      isUnknown(plan.nodeName());
    }
  }

  private static boolean isFiles(LogicalPlan leaf) {
    return leaf instanceof LogicalRelation
        && ((LogicalRelation) leaf).relation() instanceof HadoopFsRelation;
  }

  /** How the files are read, which stands in no text of a plan. */
  private void addFormat(HadoopFsRelation relation) {
    add(relation.fileFormat().getClass().getName());
    add(relation.dataSchema().json());
    add(relation.partitionSchema().json());
    ScalaCollections.rest(relation.options().iterator()).stream()
        .map(option -> option._1() + "=" + option._2())
        .sorted()
        .forEach(this::add);
  }

  private static boolean isComputed(LogicalPlan leaf) {
    return leaf instanceof Range || leaf instanceof OneRowRelation;
  }

  private void isUnknown(String source) {
    unknown = unknown == null ? source : unknown;
  }

  private void add(String file, Configuration configuration) {
    try {
      Path path = new Path(URI.create(file));
      FileStatus status = path.getFileSystem(configuration).getFileStatus(path);
      add(file + " " + status.getLen() + " " + status.getModificationTime());
    } catch (IOException cause) {
      throw new RejoinException(
          RejoinException.Code.IO,
          "the input file "
              + file
              + " can't be looked at, by which spark.rejoin.durable knows the input again: "
              + cause,
          cause);
    }
  }

  private void add(String text) {
    digest.update((text + "\n").getBytes(StandardCharsets.UTF_8));
  }
}
