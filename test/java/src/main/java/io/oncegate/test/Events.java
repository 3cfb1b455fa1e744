package io.oncegate.test;

import java.io.PrintStream;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.producer.RecordMetadata;

/** Prints events as lines of JSON. A record is named by its client and number. */
final class Events {
    private final PrintStream out = System.out;
    private final AtomicInteger acked = new AtomicInteger();
    private final AtomicInteger failed = new AtomicInteger();

    /** A record is stored, at an offset that is −1 where the broker didn't tell it. */
    void ack(String client, int seq, RecordMetadata m) {
        acked.incrementAndGet();
        line("{\"event\":\"ack\",%s,\"partition\":%d,\"offset\":%d}", record(client, seq), m.partition(), m.hasOffset() ? m.offset() : -1);
    }

    /** The client was told that a record is not stored. */
    void failed(String client, int seq, Exception e) {
        failed.incrementAndGet();
        line("{\"event\":\"ack\",%s,\"error\":%s}", record(client, seq), quote(e.toString()));
    }

    /** A record was sent in a transaction that was aborted. */
    void aborted(String client, int seq) {
        line("{\"event\":\"aborted\",%s}", record(client, seq));
    }

    /** A producer was told that another one has taken its transactional id. */
    void fenced(Exception e) {
        line("{\"event\":\"fenced\",\"error\":%s}", quote(e.toString()));
    }

    /** A consumer got a record. */
    void read(int partition, long offset, String value) {
        line("{\"event\":\"read\",\"partition\":%d,\"offset\":%d,\"value\":%s}", partition, offset, quote(value));
    }

    void summary() {
        line("{\"event\":\"summary\",\"acked\":%d,\"failed\":%d}", acked.get(), failed.get());
    }

    private static String record(String client, int seq) {
        return "\"client\":" + quote(client) + ",\"seq\":" + seq;
    }

    private synchronized void line(String format, Object... values) {
        out.println(String.format(format, values));
    }

    private static String quote(String text) {
        StringBuilder b = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\' || c < ' ') {
                b.append(String.format("\\u%04x", (int) c));
            } else {
                b.append(c);
            }
        }
        return b.append('"').toString();
    }
}
