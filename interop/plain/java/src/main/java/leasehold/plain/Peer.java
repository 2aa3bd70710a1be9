package leasehold.plain;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.function.Function;
import org.springframework.data.redis.connection.RedisStandaloneConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.data.redis.core.StringRedisTemplate;

/** Answers commands with one library, and remembers the locks that it holds. */
final class Peer<L> {
    private final Library<L> library;
    private final StringRedisTemplate redis;
    private final Map<String, L> held = new HashMap<>();

    private Peer(Library<L> library, StringRedisTemplate redis) {
        this.library = library;
        this.redis = redis;
    }

    /** Answers each line of standard input until it ends. */
    static <L> void serve(String[] arguments, Function<LettuceConnectionFactory, Library<L>> open) throws IOException {
        URI url = URI.create(arguments[0]);
        var factory = new LettuceConnectionFactory(new RedisStandaloneConfiguration(url.getHost(), url.getPort()));
        factory.afterPropertiesSet();
        factory.start();
        var peer = new Peer<>(open.apply(factory), new StringRedisTemplate(factory));
        System.out.println("ready");
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(peer.answer(line.split(" ")));
        }
        // Threads of a library may live on.
        System.exit(0);
    }

    private String answer(String[] words) {
        try {
            return does(words);
        } catch (Library.NotOwned error) {
            return "not-owned";
        } catch (Library.Unsupported error) {
            return "unsupported";
        } catch (Exception error) {
            return ("error " + error).replaceAll("\\s+", " ");
        }
    }

    private String does(String[] words) throws InterruptedException {
        String name = words[1];
        switch (words[0]) {
            case "try":
            case "acquire":
                L lock = library.acquire(name, milliseconds(words[2]), words[0].equals("acquire"));
                if (lock == null) {
                    return "busy";
                }
                held.put(name, lock);
                return "ok";
            case "release":
                return library.release(held.remove(name));
            case "extend":
                held.put(name, library.extend(held.get(name), milliseconds(words[2])));
                return "ok";
            case "crowd":
                return crowd(name, milliseconds(words[2]), milliseconds(words[3]), words[4]);
            default:
                throw new Library.Unsupported();
        }
    }

    private static Duration milliseconds(String word) {
        if (word.equals("none")) {
            throw new Library.Unsupported();
        }
        return Duration.ofMillis(Long.parseLong(word));
    }

    private String crowd(String name, Duration lease, Duration lasts, String counter) throws InterruptedException {
        long end = System.nanoTime() + lasts.toNanos();
        int counts = 0;
        int inTime = 0;
        while (System.nanoTime() < end) {
            L lock = library.acquire(name, lease, true);
            inTime += System.nanoTime() < end ? 1 : 0;
            String before = redis.opsForValue().get(counter);
            long after = (before == null ? 0 : Long.parseLong(before)) + 1;
            redis.opsForValue().set(counter, Long.toString(after));
            library.release(lock);
            counts++;
        }
        return "ok " + counts + " " + inTime;
    }
}
