package io.rejoin;

import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.net.MalformedURLException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import javax.tools.JavaCompiler;
import javax.tools.ToolProvider;

/**
 * The class path of the tests with something in front of it (other files, or other classes), or
 * without some of its jars.
 */
public final class DoctoredClassPath implements AutoCloseable {
  private final Path front;
  private final List<String> without = new ArrayList<>();
  private boolean onlyRejoin;
  private URLClassLoader loader;

  /** What is put in front goes into this folder. */
  public DoctoredClassPath(Path front) {
    this.front = front;
  }

  /** A file by this name. */
  public DoctoredClassPath file(String name, String content) throws IOException {
    Path file = front.resolve(name);
    Files.createDirectories(file.getParent());
    Files.writeString(file, content);
    return this;
  }

  /** A class by this name. */
  public DoctoredClassPath source(String name, String code) throws IOException {
    Path source = front.resolve("source").resolve(name.replace('.', '/') + ".java");
    Files.createDirectories(source.getParent());
    Files.writeString(source, code);
    JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
    int failed =
        compiler.run(null, null, null, "-proc:none", "-d", front.toString(), source.toString());
    if (failed != 0) {
      throw new IllegalStateException("the doctored class " + name + " can't be compiled");
    }
    return this;
  }

  /** Only Rejoin's classes are others than the tests': both have one XGBoost. */
  public DoctoredClassPath onlyRejoin() {
    onlyRejoin = true;
    return this;
  }

  /** Leaves out the jars of whose address this is a part; refuses a part that no address has. */
  public DoctoredClassPath without(String part) {
    if (Arrays.stream(tests().getURLs()).noneMatch(url -> url.getPath().contains(part))) {
      throw new IllegalStateException("no jar of the tests' class path is a " + part);
    }
    without.add(part);
    return this;
  }

  /** Calls the only static method of this name, and throws what it throws. */
  public Object call(String owner, String name, Object... arguments) throws Throwable {
    for (Method method : load(owner).getDeclaredMethods()) {
      if (method.getName().equals(name)) {
        method.setAccessible(true);
        try {
          return method.invoke(null, arguments);
        } catch (InvocationTargetException e) {
          throw e.getCause();
        }
      }
    }
    throw new IllegalStateException(owner + " has no method " + name);
  }

  /** The class as it is on this class path. */
  private Class<?> load(String name) throws ClassNotFoundException, MalformedURLException {
    if (loader == null) {
      List<URL> urls = new ArrayList<>();
      urls.add(front.toUri().toURL());
      for (URL url : tests().getURLs()) {
        if (without.stream().noneMatch(url.getPath()::contains)) {
          urls.add(url);
        }
      }
      ClassLoader others =
          onlyRejoin ? withoutRejoin(tests()) : ClassLoader.getPlatformClassLoader();
      loader = new URLClassLoader(urls.toArray(new URL[0]), others);
    }
    return loader.loadClass(name);
  }

  /** The tests' own class loader is the launcher's, which knows what the system's doesn't. */
  private static URLClassLoader tests() {
    return (URLClassLoader) DoctoredClassPath.class.getClassLoader();
  }

  private static ClassLoader withoutRejoin(ClassLoader tests) {
    return new ClassLoader(tests) {
      @Override
      protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
        if (name.startsWith("io.rejoin.")) {
          throw new ClassNotFoundException(name);
        }
        return super.loadClass(name, resolve);
      }
    };
  }

  @Override
  public void close() throws IOException {
    if (loader != null) {
      loader.close();
    }
  }
}
