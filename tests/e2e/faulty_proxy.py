"""A TCP proxy between real processes that makes the network bad on command, each direction for itself. `up` is from the one who connects.

What TCP cannot lose it can keep for ever: a partition here is bytes that do not arrive until it heals, as with packets that are lost and sent again.

    proxy = FaultyProxy(target_port)
    proxy.hold("up", "down")      # a partition, or one-way with one of the two; new connections are accepted and hear nothing
    proxy.heal()                  # what was held arrives; delays and throttles end
    proxy.delay(0.3, "down")      # seconds that each byte takes longer
    proxy.throttle(2000, "up")    # bytes a second
    proxy.reset()                 # every connection ends with RST on both sides
    proxy.forget("server")        # half open: that side is cut off with RST, the other is never told and hears nothing any more
"""
import asyncio
import socket
import struct
import threading

CHUNK = 16 << 10
QUEUE = 256  # chunks that may be on their way


class Direction:
    def __init__(self):
        self.held = False
        self.delay = 0.0
        self.rate = 0  # bytes a second; 0: as fast as it goes


class Connection:
    def __init__(self, client, server):
        self.sides = {"client": client, "server": server}
        self.dead = False  # one side was forgotten: nothing passes any more


class FaultyProxy:
    def __init__(self, port, host="127.0.0.1", listen="127.0.0.1"):
        self.target = (host, port)
        self.up, self.down = Direction(), Direction()
        self.connections = set()
        self.loop = asyncio.new_event_loop()
        self.changed = None
        started = threading.Event()
        self.thread = threading.Thread(target=self._run, args=(listen, started), daemon=True)
        self.thread.start()
        started.wait()
        self.address = "%s:%d" % (listen, self.port)

    # --- commands, from any thread; done when they return ---

    def hold(self, *directions):
        self._do(lambda: [setattr(self._direction(d), "held", True) for d in directions])

    def delay(self, seconds, *directions):
        self._do(lambda: [setattr(self._direction(d), "delay", seconds) for d in directions])

    def throttle(self, rate, *directions):
        self._do(lambda: [setattr(self._direction(d), "rate", rate) for d in directions])

    def heal(self):
        self._do(lambda: [d.__init__() for d in (self.up, self.down)])

    def reset(self):
        self._do(lambda: [self._cut(writer) for connection in self.connections for writer in connection.sides.values()])

    def forget(self, side):
        def do():
            for connection in self.connections:
                connection.dead = True
                self._cut(connection.sides[side])
        self._do(do)

    def close(self):
        self.reset()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()

    # --- the loop's thread ---

    def _do(self, change):
        async def apply():
            change()
            async with self.changed:
                self.changed.notify_all()
        asyncio.run_coroutine_threadsafe(apply(), self.loop).result()

    def _direction(self, name):
        return {"up": self.up, "down": self.down}[name]

    @staticmethod
    def _cut(writer):
        try:
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except (AttributeError, OSError):
            pass  # closed already
        writer.transport.abort()

    def _run(self, listen, started):
        asyncio.set_event_loop(self.loop)

        async def begin():
            self.changed = asyncio.Condition()
            self.server = await asyncio.start_server(self._accept, listen, 0)
            self.port = self.server.sockets[0].getsockname()[1]
        self.loop.run_until_complete(begin())
        started.set()
        self.loop.run_forever()
        self.server.close()
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))

    async def _accept(self, client_reader, client_writer):
        try:
            server_reader, server_writer = await asyncio.open_connection(*self.target)
        except OSError:
            self._cut(client_writer)
            return
        connection = Connection(client_writer, server_writer)
        self.connections.add(connection)
        try:
            await asyncio.gather(self._pump(client_reader, server_writer, self.up, connection), self._pump(server_reader, client_writer, self.down, connection))
        except asyncio.CancelledError:
            pass  # the proxy closes: asyncio itself would report it as an error
        finally:
            self.connections.discard(connection)

    async def _pump(self, reader, writer, direction, connection):
        queue = asyncio.Queue(QUEUE)
        sending = asyncio.ensure_future(self._send(queue, writer, direction, connection))
        try:
            while True:
                data = await reader.read(CHUNK)
                await queue.put((self.loop.time() + direction.delay, data))
                if not data:
                    break
        except OSError:
            await queue.put((0, None))
        await sending

    async def _send(self, queue, writer, direction, connection):
        while True:
            due, data = await queue.get()
            await asyncio.sleep(max(0, due - self.loop.time()))
            async with self.changed:
                await self.changed.wait_for(lambda: not direction.held and not connection.dead)
            try:
                if data is None:
                    self._cut(writer)
                    return
                if not data:
                    writer.close()
                    return
                while data and direction.rate:
                    part = max(1, direction.rate // 20)
                    writer.write(data[:part])
                    data = data[part:]
                    await asyncio.sleep(0.05)
                writer.write(data)
                await writer.drain()
            except OSError:
                return
