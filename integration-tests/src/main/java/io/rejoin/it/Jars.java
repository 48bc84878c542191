package io.rejoin.it;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.jar.Attributes;
import java.util.jar.JarEntry;
import java.util.jar.JarOutputStream;
import java.util.jar.Manifest;

/** Writes jars for processes whose class path isn't ours. */
final class Jars {
  private Jars() {}

  /** Writes a jar with this class alone. */
  static void write(Path file, Manifest manifest, Class<?> only) throws IOException {
    manifest.getMainAttributes().put(Attributes.Name.MANIFEST_VERSION, "1.0");
    String name = only.getName().replace('.', '/') + ".class";
    try (OutputStream out = Files.newOutputStream(file);
        JarOutputStream jar = new JarOutputStream(out, manifest);
        InputStream bytes = only.getClassLoader().getResourceAsStream(name)) {
      jar.putNextEntry(new JarEntry(name));
      bytes.transferTo(jar);
    }
  }
}
