package io.oncegate.test;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Properties;

/** The arguments after the program's name, each name=value. */
final class Arguments {
    private final Map<String, String> left = new LinkedHashMap<>();

    Arguments(String[] args) {
        for (int i = 1; i < args.length; i++) {
            int at = args[i].indexOf('=');
            if (at < 0) {
                throw new IllegalArgumentException(args[i] + " is not name=value");
            }
            left.put(args[i].substring(0, at), args[i].substring(at + 1));
        }
    }

    /** Takes an argument that must be there. */
    String take(String name) {
        String value = left.remove(name);
        if (value == null) {
            throw new IllegalArgumentException(name + " is missing");
        }
        return value;
    }

    /** Takes a number. */
    int take(String name, int otherwise) {
        String value = left.remove(name);
        return value == null ? otherwise : Integer.parseInt(value);
    }

    /** What is left, on top of defaults given as name, value, name, value … */
    Properties properties(String... defaults) {
        Properties p = new Properties();
        for (int i = 0; i < defaults.length; i += 2) {
            p.put(defaults[i], defaults[i + 1]);
        }
        p.putAll(left);
        return p;
    }
}
