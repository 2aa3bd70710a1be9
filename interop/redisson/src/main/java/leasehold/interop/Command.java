package leasehold.interop;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** One line of stdin, taken apart: {@code ID OBJECT VERB words... option=value...}. */
record Command(String id, String object, String verb, List<String> words, Map<String, String> options) {

    /** Redisson's own word for "no lease given": its watchdog renews. */
    static final long WATCHDOG = -1;

    static Command parse(String line) {
        String[] parts = line.trim().split(" +");
        List<String> words = new ArrayList<>();
        Map<String, String> options = new HashMap<>();
        for (int i = 3; i < parts.length; i++) {
            int equals = parts[i].indexOf('=');
            if (equals > 0 && parts[i].substring(0, equals).chars().allMatch(Character::isLowerCase)) {
                options.put(parts[i].substring(0, equals), parts[i].substring(equals + 1));
            } else {
                words.add(parts[i]);
            }
        }
        String object = parts.length > 1 ? parts[1] : "";
        String verb = parts.length > 2 ? parts[2] : "";
        return new Command(parts[0], object, verb, words, options);
    }

    /** The word behind the verb with this index, from 0. */
    String word(int index) {
        if (index >= words.size()) {
            throw new IllegalArgumentException(object + " " + verb + " needs " + (index + 1) + " words");
        }
        return words.get(index);
    }

    int number(int index) {
        return Integer.parseInt(word(index));
    }

    /** The word as a number, or another one when there is no such word. */
    int number(int index, int otherwise) {
        return index < words.size() ? number(index) : otherwise;
    }

    boolean has(String option) {
        return options.containsKey(option);
    }

    String option(String name, String otherwise) {
        return options.getOrDefault(name, otherwise);
    }

    /** An option that has no default. */
    String option(String name) {
        if (!has(name)) {
            throw new IllegalArgumentException(object + " " + verb + " needs " + name + "=");
        }
        return options.get(name);
    }

    long millis(String name, long otherwise) {
        return has(name) ? Long.parseLong(options.get(name)) : otherwise;
    }

    int count(String name) {
        return Integer.parseInt(option(name));
    }

    /** The client that does it. */
    String client() {
        return option("client", "main");
    }

    /** The lease, or that there is none. */
    long lease() {
        return millis("lease", WATCHDOG);
    }

    /** For a verb that nobody knows. */
    IllegalArgumentException unknown() {
        return new IllegalArgumentException(object + " has no verb " + verb);
    }
}
