package io.rejoin.it;

import java.lang.reflect.Field;
import java.lang.reflect.Method;
import org.apache.spark.SparkContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.scheduler.ActiveJob;

/** The secret of a training, for tests that search for it where it must not be. */
final class GangSecret {
  private GangSecret() {}

  /** That of the gang that runs now, out of the driver's own memory. */
  static byte[] of(SparkContext context) throws ReflectiveOperationException {
    scala.collection.Iterator<ActiveJob> jobs = context.dagScheduler().activeJobs().iterator();
    while (jobs.hasNext()) {
      RDD<?> rdd = jobs.next().finalStage().rdd();
      if (rdd.getClass().getName().equals("io.rejoin.spark.GangRdd")) {
        Object secret = field(field(rdd, "gang"), "secret");
        Method bytes = secret.getClass().getDeclaredMethod("bytes");
        bytes.setAccessible(true);
        return (byte[]) bytes.invoke(secret);
      }
    }
    throw new IllegalStateException("no gang is running");
  }

  private static Object field(Object owner, String name) throws ReflectiveOperationException {
    Field field = owner.getClass().getDeclaredField(name);
    field.setAccessible(true);
    return field.get(owner);
  }
}
