package example;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Stores the newest state of each order, as a subscriber in another team would. Stop it, kill it, start it again: what it keeps is
 * right. {@code --show} prints that.
 */
public final class Orders {
    private static final String ORDER_CHANGED = "payfold.order.changed.v1";
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        Map<String, String> options = options(arguments);
        try (Kept kept = new Kept(options.getOrDefault("state", "orders.db"))) {
            if (options.containsKey("show")) {
                kept.show();
            } else {
                follow(options, kept);
            }
        }
    }

    private static Map<String, String> options(String[] arguments) {
        Map<String, String> options = new HashMap<>();
        for (int at = 0; at < arguments.length; at++) {
            String name = arguments[at].substring(2);
            boolean isSwitch = Set.of("show", "until-end").contains(name);
            options.put(name, isSwitch ? "" : arguments[++at]);
        }
        return options;
    }

    private static void follow(Map<String, String> options, Kept kept) throws Exception {
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", options.getOrDefault("brokers", "127.0.0.1:9092"),
                "group.id", options.getOrDefault("group", "example-orders"),
                "auto.offset.reset", "earliest",
                "enable.auto.commit", "false",
                "allow.auto.create.topics", "false",
                "key.deserializer", StringDeserializer.class,
                "value.deserializer", StringDeserializer.class);
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings)) {
            Thread main = Thread.currentThread();
            Runtime.getRuntime().addShutdownHook(new Thread(() -> stop(consumer, main)));
            consumer.subscribe(List.of(options.getOrDefault("prefix", "payfold") + ".orders"));
            do {
                ConsumerRecords<String, String> batch = consumer.poll(Duration.ofMillis(500));
                for (ConsumerRecord<String, String> record : batch) {
                    take(kept, record);
                }
                if (!batch.isEmpty()) {
                    // Durable first, committed after: a kill in between repeats, and what repeats is dropped.
                    kept.save();
                    consumer.commitSync();
                }
            } while (!options.containsKey("until-end") || !isAtEnd(consumer));
        } catch (WakeupException stopped) {
            // A stop signal came.
        }
    }

    private static void take(Kept kept, ConsumerRecord<String, String> record) throws Exception {
        var type = record.headers().lastHeader("ce_type");
        if (type == null || !ORDER_CHANGED.equals(new String(type.value(), StandardCharsets.UTF_8))) {
            return;
        }
        JsonNode data = JSON.readTree(record.value());
        if (kept.take(record.key(), data)) {
            System.out.printf("%s  v%s.%s  %s%n", record.key(), data.get("epoch"), data.get("version"), data.get("state").asText());
        }
    }

    private static boolean isAtEnd(KafkaConsumer<String, String> consumer) {
        Set<TopicPartition> owned = consumer.assignment();
        if (owned.isEmpty()) {
            return false;
        }
        Map<TopicPartition, Long> ends = consumer.endOffsets(owned);
        return owned.stream().allMatch(partition -> consumer.position(partition) >= ends.get(partition));
    }

    private static void stop(KafkaConsumer<String, String> consumer, Thread main) {
        consumer.wakeup();
        try {
            main.join();
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
