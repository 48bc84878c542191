package io.rejoin.spark.ui;

import com.fasterxml.jackson.annotation.JsonAutoDetect;
import com.fasterxml.jackson.annotation.JsonAutoDetect.Visibility;
import com.fasterxml.jackson.annotation.JsonCreator;
import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import com.fasterxml.jackson.annotation.JsonProperty;
import io.rejoin.TrainingEvent;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.util.kvstore.KVIndex;

/**
 * A job's event in Spark's event log, where the history server finds it. Spark writes and reads it
 * by Jackson, under its class's name; a history server that doesn't have the class drops it.
 */
@JsonAutoDetect(
    fieldVisibility = Visibility.NONE,
    getterVisibility = Visibility.NONE,
    isGetterVisibility = Visibility.NONE)
@JsonIgnoreProperties(ignoreUnknown = true)
public final class PostedEvent implements SparkListenerEvent {
  /** The history server's key: events have an order, among all jobs of an application. */
  @KVIndex
  @JsonProperty("number")
  private final long number;

  @JsonProperty("job")
  private final String job;

  @JsonProperty("at")
  private final long at;

  @JsonProperty("name")
  private final String name;

  @JsonProperty("fields")
  private final Map<String, String> fields;

  /**
   * An event.
   *
   * @param at milliseconds since 1970
   */
  @JsonCreator
  public PostedEvent(
      @JsonProperty("number") long number,
      @JsonProperty("job") String job,
      @JsonProperty("at") long at,
      @JsonProperty("name") String name,
      @JsonProperty("fields") Map<String, String> fields) {
    this.number = number;
    this.job = job;
    this.at = at;
    this.name = name;
    // An event that can't be read would keep the history server from showing the application.
    this.fields = fields == null ? new LinkedHashMap<>() : new LinkedHashMap<>(fields);
  }

  static PostedEvent of(long number, String job, TrainingEvent event) {
    return new PostedEvent(number, job, JobView.millis(event), event.name(), event.fields());
  }

  long number() {
    return number;
  }

  String job() {
    return job;
  }

  String name() {
    return name;
  }

  TrainingEvent event() {
    return TrainingEvent.recorded(name, fields, TimeUnit.MILLISECONDS.toNanos(at));
  }
}
