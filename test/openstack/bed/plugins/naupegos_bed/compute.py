"""nova-compute for several imaginary hosts.

usage: python3 -m naupegos_bed.compute CONSOLES NOVA_CONF HOST_CONF...

Nova is read in once, then one process for each host is forked: a host costs
a fraction of the memory and of the start time of a nova-compute of its own.
CONSOLES is the directory in which the console log of a server is looked for,
as <its UUID>.log.
"""
import gc
import os
import signal
import sys

import eventlet.hubs
import nova.compute.manager  # noqa: F401  (with all it imports, before the forks)
import os_vif
from nova import objects
from nova.cmd import compute as nova_compute
from nova.compute import power_state
from nova.virt import fake

CONSOLE_BYTES = 100 << 10  # as much as the libvirt driver returns


class ConsoleDriver(fake.FakeDriver):
    """The fake driver, with consoles, and with a memory that outlives it."""
    consoles = ''

    def _known(self, instance):
        """Takes a server from before this process's start into the books."""
        if (instance.uuid not in self.instances and instance.host == self._host and
                instance.power_state in (power_state.RUNNING, power_state.SHUTDOWN)):
            self.instances[instance.uuid] = fake.FakeInstance(
                instance.name, instance.power_state, instance.uuid)

    def get_info(self, instance, use_cache=True):
        self._known(instance)
        return super().get_info(instance, use_cache)

    def power_off(self, instance, timeout=0, retry_interval=0):
        self._known(instance)
        super().power_off(instance, timeout, retry_interval)

    def power_on(self, context, instance, network_info, block_device_info=None, accel_info=None):
        self._known(instance)
        super().power_on(context, instance, network_info, block_device_info, accel_info)

    def detach_interface(self, context, instance, vif):
        self._interfaces.setdefault(vif['id'], vif)
        super().detach_interface(context, instance, vif)

    def get_console_output(self, context, instance):
        try:
            with open(os.path.join(self.consoles, instance.uuid + '.log'), 'rb') as f:
                f.seek(max(0, os.fstat(f.fileno()).st_size - CONSOLE_BYTES))
                return f.read()
        except FileNotFoundError:
            return super().get_console_output(context, instance)


def main():
    consoles, nova_conf, *hosts = sys.argv[1:]
    ConsoleDriver.consoles = consoles
    fake.ConsoleDriver = ConsoleDriver  # Nova takes drivers from nova.virt only
    objects.register_all()
    os_vif.initialize()
    gc.freeze()  # the collector would touch, and so unshare, every page
    children = []
    for conf in hosts:
        pid = os.fork()
        if pid == 0:
            eventlet.hubs.use_hub()  # the parent's polls for all of its children: each would spin over its sisters' sockets
            sys.argv = ['nova-compute', '--config-file', nova_conf, '--config-file', conf]
            sys.exit(nova_compute.main())
        children.append(pid)

    def stop(*_):
        for pid in children:
            os.kill(pid, signal.SIGTERM)

    signal.signal(signal.SIGTERM, stop)
    status = 0
    while children:
        pid, s = os.wait()
        children.remove(pid)
        status = status or os.waitstatus_to_exitcode(s)
        stop()  # one host without the others is no test bed
    sys.exit(status)


if __name__ == '__main__':
    main()
