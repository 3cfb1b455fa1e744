package io.oncegate.test;

import java.util.List;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * A zombie: a producer is in the middle of a transaction when a second one takes its transactional
 * id. The zombie must be fenced, its records aborted, and the second one's committed.
 *
 * <p>topic, client, transactional.id; size: records of a transaction (10). The zombie's records are
 * the first ones.
 */
final class Fence {
    private Fence() {}

    static void run(Arguments arguments) throws Exception {
        String topic = arguments.take("topic");
        String client = arguments.take("client");
        int size = arguments.take("size", 10);
        Events events = new Events();
        Properties properties = Produce.properties(arguments, client);
        try (KafkaProducer<String, String> zombie = new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
                KafkaProducer<String, String> successor = new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer())) {
            zombie.initTransactions();
            Transactions.write(zombie, topic, client, 1, 0, size - 1);
            zombie.flush();

            successor.initTransactions();
            List<Future<RecordMetadata>> sent = Transactions.write(successor, topic, client, 1, size, 2 * size - 1);
            successor.commitTransaction();
            for (int i = 0; i < size; i++) {
                events.ack(client, size + i, sent.get(i).get());
            }

            try {
                zombie.commitTransaction();
                throw new IllegalStateException("the zombie's commit was taken");
            } catch (ProducerFencedException | InvalidProducerEpochException e) {
                events.fenced(e);
            }
            for (int seq = 0; seq < size; seq++) {
                events.aborted(client, seq);
            }
        }
        events.summary();
    }
}
