package io.rejoin.xgboost;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Iterator;
import ml.dmlc.xgboost4j.java.DMatrix;
import ml.dmlc.xgboost4j.java.XGBoostError;

/**
 * A matrix that is made of whole batches. XGBoost4J makes one of rows, each an object, which it
 * collects into batches for its native code; here the native code gets the batches themselves, and
 * does with them the same.
 */
public final class BatchMatrix extends DMatrix {
  private static final String CLASS = "ml.dmlc.xgboost4j.java.XGBoostJNI";

  private BatchMatrix(long handle) {
    super(handle);
  }

  /**
   * Makes a matrix; the ranks of a communicator agree on the number of columns by that. Holds no
   * batch longer than until the next one is asked for.
   *
   * @param missing the value that is as good as none
   * @throws XGBoostError when XGBoost refuses the batches
   * @throws Exception what the iterator has thrown; then nothing has been sent to other ranks
   */
  public static DMatrix of(Iterator<MatrixBatch> batches, float missing) throws Exception {
    Guarded guarded = new Guarded(batches);
    long[] handle = new long[1];
    int failed = (int) call(create(), guarded, null, missing, handle);
    if (guarded.failure instanceof Error) {
      throw (Error) guarded.failure;
    }
    if (guarded.failure != null) {
      throw (Exception) guarded.failure;
    }
    call(method("checkCall", int.class), failed);
    return new BatchMatrix(handle[0]);
  }

  /** Looks for what it calls, which is no part of XGBoost4J's API. */
  static void check(XgboostVersion version) {
    try {
      create();
      method("checkCall", int.class);
    } catch (ReflectiveOperationException e) {
      throw version.missing(e);
    }
  }

  private static Method create() throws ReflectiveOperationException {
    return method(
        "XGDMatrixCreateFromDataIter", Iterator.class, String.class, float.class, long[].class);
  }

  private static Method method(String name, Class<?>... parameters)
      throws ReflectiveOperationException {
    // Not initialized, which would load the native library where nothing is called.
    Class<?> owner = Class.forName(CLASS, false, DMatrix.class.getClassLoader());
    Method method = owner.getDeclaredMethod(name, parameters);
    method.setAccessible(true);
    return method;
  }

  private static Object call(Method method, Object... arguments) throws Exception {
    try {
      return method.invoke(null, arguments);
    } catch (InvocationTargetException thrown) {
      if (thrown.getCause() instanceof Exception) {
        throw (Exception) thrown.getCause();
      }
      throw thrown;
    }
  }

  /**
   * The native code can't cope with an exception: it would go on with the batch before, or with a
   * matrix that ends there. So it gets a batch that it refuses, before it talks to other ranks.
   */
  private static final class Guarded implements Iterator<MatrixBatch> {
    private final Iterator<MatrixBatch> batches;
    private Throwable failure;

    Guarded(Iterator<MatrixBatch> batches) {
      this.batches = batches;
    }

    @Override
    public boolean hasNext() {
      try {
        return failure != null || batches.hasNext();
      } catch (Throwable e) {
        failure = e;
        return true;
      }
    }

    @Override
    public MatrixBatch next() {
      if (failure == null) {
        try {
          return batches.next();
        } catch (Throwable e) {
          failure = e;
        }
      }
      return MatrixBatch.refused();
    }
  }
}
