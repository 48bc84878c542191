package io.rejoin.spark;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.spark.api.java.function.MapFunction;
import org.apache.spark.ml.feature.VectorAssembler;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.expressions.UserDefinedFunction;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** When a data set is taken for one of an earlier application. */
class PlanDigestTest {
  private static SparkSession session;

  @TempDir Path scratch;

  @BeforeAll
  static void start() {
    session = LocalSpark.start("local[1]");
  }

  @AfterAll
  static void stop() {
    session.stop();
  }

  @BeforeEach
  void write() throws Exception {
    Files.writeString(scratch.resolve("one file.csv"), "1,2\n3,4\n");
  }

  private Dataset<Row> read(String... options) {
    return session
        .read()
        .schema("a DOUBLE, b DOUBLE")
        .option("mode", options.length > 0 ? options[0] : "PERMISSIVE")
        .csv(scratch.toString());
  }

  private Dataset<Row> query(double least) {
    return read()
        .where(functions.col("a").gt(least))
        .withColumn("c", functions.col("a").plus(functions.col("b")))
        .repartition(2);
  }

  @Test
  void a_file_that_was_written_anew_with_as_many_bytes_is_another_one() throws Exception {
    Path file = scratch.resolve("one file.csv");
    Files.setLastModifiedTime(file, FileTime.fromMillis(1_000_000));
    byte[] before = digest(query(0));
    Files.writeString(file, "1,2\n3,5\n");
    Files.setLastModifiedTime(file, FileTime.fromMillis(1_002_000));
    assertFalse(Arrays.equals(before, digest(query(0))));
  }

  @Test
  void the_same_columns_by_other_names_are_another_input() throws Exception {
    Dataset<Row> first = read().select(functions.col("a").as("x"), functions.col("b").as("y"));
    Dataset<Row> second = read().select(functions.col("a").as("y"), functions.col("b").as("x"));
    assertFalse(Arrays.equals(digest(first), digest(second)));
    assertFalse(Arrays.equals(digest(read().toDF("x", "y")), digest(read().toDF("y", "x"))));
    assertArrayEquals(digest(first), digest(read().selectExpr("a AS x", "b AS y")));
  }

  private static byte[] digest(Dataset<?> dataset) throws Exception {
    MessageDigest sha = MessageDigest.getInstance("SHA-256");
    PlanDigest digest = new PlanDigest(sha);
    digest.add(dataset);
    assertNull(digest.unknown());
    return sha.digest();
  }

  private static void assertDiffers(Dataset<?> one, Dataset<?> other) throws Exception {
    assertFalse(Arrays.equals(digest(one), digest(other)), "they are taken for the same");
  }

  private static String unknown(Dataset<?> dataset) throws Exception {
    PlanDigest digest = new PlanDigest(MessageDigest.getInstance("SHA-256"));
    digest.add(dataset);
    return digest.unknown();
  }

  @Test
  void the_same_query_over_the_same_files_is_the_same_each_time_it_is_written() throws Exception {
    assertArrayEquals(digest(query(1)), digest(query(1)));
  }

  @Test
  void another_query_another_way_to_read_and_other_files_are_told_apart() throws Exception {
    assertDiffers(query(1), query(2));
    assertDiffers(read("PERMISSIVE"), read("DROPMALFORMED"));
    assertDiffers(read(), session.read().schema("a INT, b DOUBLE").csv(scratch.toString()));
    byte[] before = digest(query(1));
    Files.writeString(scratch.resolve("another.csv"), "5,6\n");
    assertFalse(Arrays.equals(before, digest(query(1))), "a new file is overlooked");
  }

  @Test
  void each_of_many_columns_of_a_vector_counts() throws Exception {
    StringBuilder schema = new StringBuilder("c0 DOUBLE");
    for (int column = 1; column < 41; column++) {
      schema.append(", c").append(column).append(" DOUBLE");
    }
    assertArrayEquals(digest(vectors(schema, 39)), digest(vectors(schema, 39)));
    assertDiffers(vectors(schema, 39), vectors(schema, 40));
  }

  private Dataset<Row> vectors(CharSequence schema, int last) {
    List<String> columns =
        IntStream.range(0, 39).mapToObj(i -> "c" + i).collect(Collectors.toList());
    columns.add("c" + last);
    Dataset<Row> table = session.read().schema(schema.toString()).csv(scratch.toString());
    return new VectorAssembler()
        .setInputCols(columns.toArray(new String[0]))
        .setOutputCol("v")
        .transform(table)
        .select("v");
  }

  @Test
  void a_cached_data_set_has_the_files_that_it_is_of() throws Exception {
    Dataset<Row> cached = query(1).cache();
    byte[] before = digest(cached);
    Files.writeString(scratch.resolve("one file.csv"), "1,2\n3,4\n5,6\n");
    session.catalog().refreshByPath(scratch.toString());
    assertFalse(Arrays.equals(before, digest(query(1).cache())), "another file is overlooked");
  }

  @Test
  void rows_of_the_program_are_told_apart_by_what_they_are() throws Exception {
    assertArrayEquals(digest(rows(1.5)), digest(rows(1.5)));
    assertDiffers(rows(1.5), rows(2.5));
    assertDiffers(session.range(10), session.range(11));
  }

  private static Dataset<Row> rows(double value) {
    List<Row> rows = List.of(RowFactory.create(value), RowFactory.create(7.0));
    return session.createDataFrame(rows, new StructType().add("x", DataTypes.DoubleType));
  }

  @Test
  void rows_whose_source_is_in_no_plan_are_unknown() throws Exception {
    Dataset<Row> rdd = session.createDataFrame(read().toJavaRDD(), read().schema());
    assertEquals("LogicalRDD", unknown(rdd.union(read())));
    read().createOrReplaceTempView("v");
    assertNull(unknown(session.sql("select * from v where a > (select max(b) from v)")));
    Dataset<Row> dated = session.sql("select *, current_date() from v");
    assertEquals("current_date", unknown(dated));
    Dataset<Double> mapped =
        read().map((MapFunction<Row, Double>) row -> row.getDouble(0), Encoders.DOUBLE());
    assertNotNull(unknown(mapped));
    UserDefinedFunction twice = functions.udf((Double x) -> 2 * x, DataTypes.DoubleType);
    assertNotNull(unknown(read().select(twice.apply(functions.col("a")))));
  }
}
