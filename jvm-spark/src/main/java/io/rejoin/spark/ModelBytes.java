package io.rejoin.spark;

import io.rejoin.RejoinException;
import java.nio.ByteBuffer;
import org.apache.spark.SparkEnv;
import org.apache.spark.serializer.SerializerInstance;
import scala.reflect.ClassTag;
import scala.reflect.ClassTag$;

/** The model of a user's function as bytes: Java's serialization, by the serializer of closures. */
final class ModelBytes {
  private ModelBytes() {}

  /**
   * The bytes of a model.
   *
   * @throws RejoinException TRAINING_FAILED for one that can't be serialized
   */
  static byte[] write(Object model) {
    ByteBuffer written;
    try {
      written = serializer().serialize(model, tag());
    } catch (Exception e) {
      // Scala's methods declare nothing of what they throw.
      throw new RejoinException(
          RejoinException.Code.TRAINING_FAILED, "the model can't be serialized: " + e, e);
    }
    byte[] bytes = new byte[written.remaining()];
    written.get(bytes);
    return bytes;
  }

  /**
   * The model of these bytes; its classes are looked up as the calling thread would, as those of a
   * shell or a notebook have to be.
   */
  static <M> M read(byte[] bytes) {
    ClassLoader loader = Thread.currentThread().getContextClassLoader();
    return serializer().deserialize(ByteBuffer.wrap(bytes), loader, ModelBytes.<M>tag());
  }

  private static SerializerInstance serializer() {
    return SparkEnv.get().closureSerializer().newInstance();
  }

  private static <M> ClassTag<M> tag() {
    return ClassTag$.MODULE$.apply(Object.class);
  }
}
