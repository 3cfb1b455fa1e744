package io.oncegate.test;

import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Produces records "client:seq" in transactions, and prints what became of each once its
 * transaction has ended.
 *
 * <p>topic, client, count, transactional.id; partitions (1); size: records of a transaction (10);
 * abort: every transaction with a number divisible by this is aborted (0: none).
 */
final class Transactions {
    private Transactions() {}

    static void run(Arguments arguments) throws InterruptedException {
        String topic = arguments.take("topic");
        String client = arguments.take("client");
        int count = arguments.take("count", 0);
        int partitions = arguments.take("partitions", 1);
        int size = arguments.take("size", 10);
        int abort = arguments.take("abort", 0);
        Events events = new Events();
        Properties properties = Produce.properties(arguments, client);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            for (int first = 0, number = 1; first < count; first += size, number++) {
                int last = Math.min(first + size, count) - 1;
                boolean wanted = abort == 0 || number % abort != 0;
                if (!wanted) {
                    write(producer, topic, client, partitions, first, last);
                    again(producer::abortTransaction);
                    for (int seq = first; seq <= last; seq++) {
                        events.aborted(client, seq);
                    }
                    continue;
                }
                List<RecordMetadata> stored = commit(producer, topic, client, partitions, first, last);
                for (int seq = first; seq <= last; seq++) {
                    events.ack(client, seq, stored.get(seq - first));
                }
            }
        }
        events.summary();
    }

    /** Writes records in a transaction, again from the start when it had to be aborted. */
    private static List<RecordMetadata> commit(KafkaProducer<String, String> producer, String topic, String client, int partitions, int first, int last)
            throws InterruptedException {
        while (true) {
            try {
                List<Future<RecordMetadata>> sent = write(producer, topic, client, partitions, first, last);
                again(producer::commitTransaction);
                List<RecordMetadata> stored = new ArrayList<>();
                for (Future<RecordMetadata> f : sent) {
                    stored.add(f.get());
                }
                return stored;
            } catch (ProducerFencedException e) {
                throw e;
            } catch (ExecutionException e) {
                throw new IllegalStateException("committed a record that failed", e);
            } catch (KafkaException e) {
                again(producer::abortTransaction);
            }
        }
    }

    static List<Future<RecordMetadata>> write(KafkaProducer<String, String> producer, String topic, String client, int partitions, int first, int last) {
        producer.beginTransaction();
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (int seq = first; seq <= last; seq++) {
            String value = client + ":" + seq;
            sent.add(producer.send(new ProducerRecord<>(topic, seq % partitions, value, value)));
        }
        return sent;
    }

    /** Ends a transaction; after a timeout its end may only be asked for again. */
    private static void again(Runnable end) {
        for (int tries = 1; ; tries++) {
            try {
                end.run();
                return;
            } catch (TimeoutException e) {
                if (tries == 3) {
                    throw e;
                }
            }
        }
    }
}
