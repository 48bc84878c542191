package io.rejoin.spark;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import scala.collection.immutable.Nil$;

/** The few Scala collections that Spark's API wants, in words that 2.12 and 2.13 have in common. */
final class ScalaCollections {
  private ScalaCollections() {}

  /** The same elements in the same order. */
  @SuppressWarnings("unchecked")
  static <T> scala.collection.immutable.List<T> list(List<? extends T> elements) {
    scala.collection.immutable.List<T> list =
        (scala.collection.immutable.List<T>) (Object) Nil$.MODULE$;
    for (int i = elements.size() - 1; i >= 0; i--) {
      list = list.$colon$colon(elements.get(i));
    }
    return list;
  }

  /** The same elements. */
  @SuppressWarnings("unchecked")
  static <T> scala.collection.immutable.Set<T> set(List<? extends T> elements) {
    return (scala.collection.immutable.Set<T>) (Object) list(elements).toSet();
  }

  /** A map without entries. */
  @SuppressWarnings("unchecked")
  static <K, V> scala.collection.immutable.Map<K, V> noMap() {
    return (scala.collection.immutable.Map<K, V>)
        (Object) scala.collection.immutable.Map$.MODULE$.empty();
  }

  /** An iterator without elements. */
  @SuppressWarnings("unchecked")
  static <T> scala.collection.Iterator<T> empty() {
    return (scala.collection.Iterator<T>) (Object) scala.collection.Iterator$.MODULE$.empty();
  }

  /**
   * The same elements for Java, one by one. Those of Spark's generated code are computed only where
   * they are asked whether there is another one, which Java leaves to the caller.
   */
  static <T> Iterator<T> iterator(scala.collection.Iterator<T> elements) {
    return new Iterator<T>() {
      @Override
      public boolean hasNext() {
        return elements.hasNext();
      }

      @Override
      public T next() {
        if (!elements.hasNext()) {
          throw new NoSuchElementException("there is no further element");
        }
        return elements.next();
      }
    };
  }

  /** The same elements for Scala, one by one. */
  static <T> scala.collection.Iterator<T> scala(Iterator<T> elements) {
    return new scala.collection.AbstractIterator<T>() {
      @Override
      public boolean hasNext() {
        return elements.hasNext();
      }

      @Override
      public T next() {
        return elements.next();
      }
    };
  }

  /** What a Scala iterator still has. */
  static <T> List<T> rest(scala.collection.Iterator<T> iterator) {
    List<T> rest = new ArrayList<>();
    while (iterator.hasNext()) {
      rest.add(iterator.next());
    }
    return rest;
  }
}
