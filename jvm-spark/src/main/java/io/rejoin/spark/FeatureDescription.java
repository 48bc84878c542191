package io.rejoin.spark;

import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;
import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * Names and types of the features, in the order of their columns, as the estimator has them: empty
 * where they aren't set; and which value is as good as none. They stand in the list of an input's
 * pages, for readers outside the JVM.
 */
final class FeatureDescription implements Serializable {
  private static final long serialVersionUID = 1L;
  static final FeatureDescription NONE =
      new FeatureDescription(new String[0], new String[0], Float.NaN);

  private final String[] names;
  private final String[] types;
  private final float missing;

  FeatureDescription(String[] names, String[] types, float missing) {
    this.names = names.clone();
    this.types = types.clone();
    this.missing = missing;
  }

  /** One that {@link #write} has written. */
  static FeatureDescription read(DataInput in) throws IOException {
    return new FeatureDescription(readTexts(in), readTexts(in), in.readFloat());
  }

  /**
   * Writes names and types, of each how many, and each text's length in UTF-8 and its bytes; then
   * the missing value.
   */
  void write(DataOutput out) throws IOException {
    writeTexts(out, names);
    writeTexts(out, types);
    out.writeFloat(missing);
  }

  private static void writeTexts(DataOutput out, String[] texts) throws IOException {
    out.writeInt(texts.length);
    for (String text : texts) {
      byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
      out.writeInt(bytes.length);
      out.write(bytes);
    }
  }

  /** Of bytes whose digest is the right one. */
  private static String[] readTexts(DataInput in) throws IOException {
    List<String> texts = new ArrayList<>();
    for (int left = in.readInt(); left > 0; left--) {
      byte[] bytes = new byte[in.readInt()];
      in.readFully(bytes);
      texts.add(new String(bytes, StandardCharsets.UTF_8));
    }
    return texts.toArray(new String[0]);
  }

  /** Empty for none. */
  String[] names() {
    return names.clone();
  }

  /** Empty for none. */
  String[] types() {
    return types.clone();
  }

  /** The value that is as good as none, for instance NaN. */
  float missing() {
    return missing;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof FeatureDescription
        && Arrays.equals(((FeatureDescription) other).names, names)
        && Arrays.equals(((FeatureDescription) other).types, types)
        && Float.compare(((FeatureDescription) other).missing, missing) == 0;
  }

  @Override
  public int hashCode() {
    return 31 * (31 * Arrays.hashCode(names) + Arrays.hashCode(types)) + Float.hashCode(missing);
  }

  @Override
  public String toString() {
    return "names "
        + Arrays.toString(names)
        + ", types "
        + Arrays.toString(types)
        + ", missing "
        + missing;
  }
}
