"""Octavia network driver for load balancers without amphorae.

VIP ports, VRRP ports and security groups are real Neutron objects. The
imaginary amphora owns its ports by device_id, as Nova would have arranged;
without that, members end in ERROR.
"""
from octavia.network import data_models
from octavia.network.drivers.neutron import allowed_address_pairs as aap


class WithoutAmphorae(aap.AllowedAddressPairsDriver):
    def _ports_of(self, compute_id):
        if not compute_id:
            return []
        return self.neutron_client.list_ports(device_id=compute_id)['ports']

    def plug_port(self, amphora, port):
        self.neutron_client.update_port(
            port.id, {'port': {'device_id': amphora.compute_id}})
        return data_models.Interface(
            id=port.id, compute_id=amphora.compute_id, port_id=port.id,
            network_id=port.network_id, fixed_ips=port.fixed_ips)

    def plug_network(self, compute_id, network_id):
        port = self.neutron_client.create_port({'port': {
            'network_id': network_id, 'device_id': compute_id,
            'name': 'octavia-amphora', 'device_owner': aap.OCTAVIA_OWNER}})
        return self._port_to_octavia_interface(compute_id, port['port'])

    def unplug_network(self, compute_id, network_id):
        for port in self._ports_of(compute_id):
            if port['network_id'] == network_id:
                self.neutron_client.delete_port(port['id'])

    def unplug_aap_port(self, vip, amphora, subnet):
        self.unplug_network(amphora.compute_id, subnet.network_id)

    def deallocate_vip(self, vip):
        super().deallocate_vip(vip)
        for amphora in vip.load_balancer.amphorae:
            for port in self._ports_of(amphora.compute_id):
                self.neutron_client.delete_port(port['id'])

    def wait_for_port_detach(self, amphora):
        pass
