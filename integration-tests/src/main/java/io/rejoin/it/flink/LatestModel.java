package io.rejoin.it.flink;

import io.rejoin.flink.TrainedModel;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import org.apache.flink.api.common.functions.MapFunction;

/** Keeps the newest model in a file, which changes from one moment to the next. */
public final class LatestModel implements MapFunction<TrainedModel, Integer> {
  private static final long serialVersionUID = 1L;

  private final String folder;

  /** In this folder, which has to be there. */
  LatestModel(Path folder) {
    this.folder = folder.toString();
  }

  @Override
  public Integer map(TrainedModel model) throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (ObjectOutputStream out = new ObjectOutputStream(bytes)) {
      out.writeObject(model);
    }
    Path there = Path.of(folder, "model");
    Path next = Files.write(there.resolveSibling("next"), bytes.toByteArray());
    Files.move(next, there, StandardCopyOption.ATOMIC_MOVE);
    return model.getVersion();
  }

  /** The newest model in such a folder. */
  static TrainedModel in(Path folder) throws IOException {
    byte[] bytes = Files.readAllBytes(folder.resolve("model"));
    try (ObjectInputStream in = new ObjectInputStream(new ByteArrayInputStream(bytes))) {
      return (TrainedModel) in.readObject();
    } catch (ClassNotFoundException e) {
      throw new IOException(e);
    }
  }

  /** Its version; 0 before there is one. */
  static int version(Path folder) throws IOException {
    try {
      return in(folder).getVersion();
    } catch (NoSuchFileException notYet) {
      return 0;
    }
  }

  /** The first 16 digits of the SHA-256. */
  static String digest(byte[] bytes) {
    try {
      byte[] digest = MessageDigest.getInstance("SHA-256").digest(bytes);
      return HexFormat.of().formatHex(digest).substring(0, 16);
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException(e);
    }
  }
}
