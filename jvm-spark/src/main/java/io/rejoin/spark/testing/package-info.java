/** For tests of programs that train with Rejoin: kill a rank on purpose and compare the models. */
package io.rejoin.spark.testing;
