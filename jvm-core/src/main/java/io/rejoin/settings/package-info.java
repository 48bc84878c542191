/** One table of settings: names, types, defaults, checks and the native keys that they become. */
package io.rejoin.settings;
