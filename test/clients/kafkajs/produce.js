// Produces count records "client:seq" with kafkajs's defaults and prints
// "ack seq partition offset" or "error seq message" for each.
//
// Each message has a timestamp of its own: without one, kafkajs gives a retried
// message a new one, and nothing tells it from an equal new message.
//
// Arguments: bootstrap topic client count partitions pace-in-milliseconds
const { Kafka, logLevel, Partitioners } = require('kafkajs')

const [bootstrap, topic, client, count, partitions, pace] = process.argv.slice(2)
const kafka = new Kafka({
  clientId: client,
  brokers: bootstrap.split(','),
  logLevel: logLevel.NOTHING,
  retry: { initialRetryTime: 20, retries: 50, maxRetryTime: 200 },
})

async function main() {
  const producer = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner })
  await producer.connect()
  // One send at a time for each partition keeps the order that is checked.
  const work = []
  for (let p = 0; p < Number(partitions); p++) {
    work.push((async () => {
      for (let seq = p; seq < Number(count); seq += Number(partitions)) {
        try {
          const [r] = await producer.send({
            topic, acks: -1, messages: [{ value: `${client}:${seq}`, partition: p, timestamp: String(Date.now()) }],
          })
          console.log('ack', seq, r.partition, r.baseOffset)
        } catch (e) {
          console.log('error', seq, e.message)
        }
        await new Promise(done => setTimeout(done, Number(pace)))
      }
    })())
  }
  await Promise.all(work)
  await producer.disconnect()
}

main().catch(e => { console.error(e); process.exit(1) })
