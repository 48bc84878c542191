package io.rejoin.spark;

import io.rejoin.RejoinException;
import java.io.IOException;
import java.lang.reflect.Array;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.ml.feature.VectorAssembler;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.RuntimeConfig;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.ScalaUDF;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UserDefinedExpression;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.ObjectConsumer;
import org.apache.spark.sql.catalyst.plans.logical.ObjectProducer;
import org.apache.spark.sql.catalyst.plans.logical.TypedFilter;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Metadata;

/**
 * What a data set is computed from, as a digest that is the same in another application for the
 * same query over the same files: its columns' names, all of its analyzed plan but the numbers that
 * Spark gives columns, and of each source of files, how it is read and each file's name, length and
 * time. What it can't see into (a function's code, a table of another source, the time of day) it
 * names.
 */
final class PlanDigest {
  private static final String OPERATORS = "org.apache.spark.sql.catalyst.plans.logical.";
  private static final String EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions.";

  /** Settings of a session that change what an expression or a source of files gives. */
  private static final List<String> SETTINGS =
      List.of(
          "spark.sql.session.timeZone",
          "spark.sql.ansi.enabled",
          "spark.sql.caseSensitive",
          "spark.sql.files.ignoreCorruptFiles",
          "spark.sql.files.ignoreMissingFiles");

  private final MessageDigest digest;
  private Configuration configuration;
  private String unknown;

  /** {@code digest} takes in what the data set is computed from. */
  PlanDigest(MessageDigest digest) {
    this.digest = digest;
  }

  void add(Dataset<?> dataset) {
    configuration = dataset.sparkSession().sparkContext().hadoopConfiguration();
    RuntimeConfig settings = dataset.sparkSession().conf();
    SETTINGS.forEach(name -> add(name + "=" + settings.get(name)));
    // Spark leaves names out of a canonical plan, and by its columns' names a training chooses
    // them.
    Arrays.asList(dataset.columns()).forEach(this::add);
    addPlan(dataset.queryExecution().analyzed().canonicalized());
  }

  /** The first thing whose rows the digest doesn't tell apart from others; null for none. */
  String unknown() {
    return unknown;
  }

  private void addPlan(LogicalPlan plan) {
    String name = plan.getClass().getName();
    if (plan instanceof LocalRelation) {
      LocalRelation rows = (LocalRelation) plan;
      add(rows.schema().json());
      UnsafeProjection bytes = UnsafeProjection.create(rows.schema());
      for (InternalRow row : ScalaCollections.rest(rows.data().iterator())) {
        digest.update(bytes.apply(row).getBytes());
      }
    } else if (plan instanceof LogicalRelation
        && ((LogicalRelation) plan).relation() instanceof HadoopFsRelation) {
      addFiles((HadoopFsRelation) ((LogicalRelation) plan).relation());
    } else {
      boolean isCode =
          plan instanceof ObjectProducer
              || plan instanceof ObjectConsumer
              || plan instanceof TypedFilter;
      if (isCode || !name.startsWith(OPERATORS)) {
        isUnknown(plan.nodeName());
      } else {
        addParts(plan);
      }
    }
  }

  private void addExpression(Expression expression) {
    String name = expression.getClass().getName();
    if (expression instanceof Literal) {
      add(((Literal) expression).dataType().json());
      add(((Literal) expression).sql());
    } else if (expression instanceof ScalaUDF && isAssembler(((ScalaUDF) expression).function())) {
      add(VectorAssembler.class.getName());
      ScalaCollections.rest(expression.children().iterator()).forEach(this::addValue);
    } else if (expression instanceof UserDefinedExpression
        || !name.startsWith(EXPRESSIONS)
        || name.startsWith(EXPRESSIONS + "objects.")
        || name.contains("Current")
        || name.endsWith(".Now")
        || name.endsWith("LocalTimestamp")) {
      isUnknown(expression.prettyName());
    } else {
      addParts((scala.Product) expression);
    }
  }

  /** Its own function depends on the columns alone, and these are in the plan. */
  private static boolean isAssembler(Object function) {
    return function.getClass().getName().startsWith(VectorAssembler.class.getName() + "$");
  }

  /** All that such a thing was made of. */
  private void addParts(scala.Product whole) {
    add(whole.getClass().getName() + " " + whole.productArity());
    ScalaCollections.rest(whole.productIterator()).forEach(this::addValue);
  }

  private void addValue(Object value) {
    if (value instanceof LogicalPlan) {
      addPlan((LogicalPlan) value);
    } else if (value instanceof Expression) {
      addExpression((Expression) value);
    } else if (value instanceof ExprId) {
      add(Long.toString(((ExprId) value).id()));
    } else if (value instanceof DataType) {
      add(((DataType) value).json());
    } else if (value instanceof scala.collection.Iterable) {
      List<?> all = ScalaCollections.rest(((scala.collection.Iterable<?>) value).iterator());
      add("of " + all.size());
      all.forEach(this::addValue);
    } else if (value instanceof scala.Product) {
      addParts((scala.Product) value);
    } else if (value != null && value.getClass().isArray()) {
      int length = Array.getLength(value);
      add("of " + length);
      for (int i = 0; i < length; i++) {
        addValue(Array.get(value, i));
      }
    } else if (value == null
        || value instanceof CharSequence
        || value instanceof Number
        || value instanceof Boolean
        || value instanceof Character
        || value.getClass().getName().startsWith("scala.Enumeration")) {
      add(String.valueOf(value));
    } else if (!(value instanceof Metadata)) {
      isUnknown(value.getClass().getSimpleName());
    }
  }

  private void isUnknown(String source) {
    unknown = unknown == null ? source : unknown;
  }

  private void addFiles(HadoopFsRelation relation) {
    if (!(relation.location() instanceof PartitioningAwareFileIndex)) {
      // It may give other rows of the same files.
      isUnknown(relation.location().getClass().getSimpleName());
      return;
    }
    add(relation.fileFormat().getClass().getName());
    add(relation.dataSchema().json());
    add(relation.partitionSchema().json());
    ScalaCollections.rest(relation.options().iterator()).stream()
        .map(option -> option._1() + "=" + option._2())
        .sorted()
        .forEach(this::add);
    String[] files = relation.location().inputFiles();
    Arrays.sort(files);
    for (String file : files) {
      addFile(file);
    }
  }

  private void addFile(String file) {
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
    digest.update((text.length() + " " + text + "\n").getBytes(StandardCharsets.UTF_8));
  }
}
