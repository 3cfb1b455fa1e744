import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Produces count records "client:seq" to a topic and prints a line for each acknowledgement:
 * "ack seq partition offset", or "error seq message".
 *
 * <p>Arguments: bootstrap topic client count partitions [property=value ...]
 */
public class Produce {
    public static void main(String[] args) throws Exception {
        String topic = args[1];
        String client = args[2];
        int count = Integer.parseInt(args[3]);
        int partitions = Integer.parseInt(args[4]);
        Properties p = new Properties();
        p.put("bootstrap.servers", args[0]);
        p.put("client.id", client);
        p.put("linger.ms", "2");
        p.put("batch.size", "512"); // a few records, so that many batches are in flight
        p.put("max.in.flight.requests.per.connection", "5");
        p.put("delivery.timeout.ms", "120000");
        p.put("retry.backoff.ms", "20");
        p.put("reconnect.backoff.ms", "10");
        for (int i = 5; i < args.length; i++) {
            String[] kv = args[i].split("=", 2);
            p.put(kv[0], kv[1]);
        }
        CountDownLatch left = new CountDownLatch(count);
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(p, new StringSerializer(), new StringSerializer())) {
            for (int i = 0; i < count; i++) {
                int seq = i;
                producer.send(
                        new ProducerRecord<>(topic, seq % partitions, null, client + ":" + seq),
                        (m, e) -> {
                            synchronized (System.out) {
                                if (e == null) {
                                    System.out.println("ack " + seq + " " + m.partition() + " " + m.offset());
                                } else {
                                    System.out.println("error " + seq + " " + e);
                                }
                            }
                            left.countDown();
                        });
                if (i % 50 == 49) {
                    Thread.sleep(5);
                }
            }
            producer.flush();
            left.await();
        }
    }
}
