"""Cinder driver: a sparse file for each volume and snapshot.

Nothing ever reads the blocks, so volumes made from an image or from each
other have the right size and no data: fifty root volumes cost nothing.
"""
import os

from cinder import interface
from cinder.volume import configuration
from cinder.volume import driver
from oslo_config import cfg

OPTS = [cfg.StrOpt('naupegos_bed_dir', help='where the volumes lie')]
cfg.CONF.register_opts(OPTS, group=configuration.SHARED_CONF_GROUP)


@interface.volumedriver
class FileDriver(driver.VolumeDriver):
    VERSION = '1.0'
    CI_WIKI_NAME = 'none'

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.configuration.append_config_values(OPTS)

    def _path(self, thing):
        return os.path.join(self.configuration.naupegos_bed_dir, thing['name'])

    def _make(self, thing, gib):
        with open(self._path(thing), 'ab') as f:
            f.truncate(int(gib) << 30)

    def _drop(self, thing):
        try:
            os.unlink(self._path(thing))
        except FileNotFoundError:
            pass

    def do_setup(self, context):
        os.makedirs(self.configuration.naupegos_bed_dir, exist_ok=True)

    def check_for_setup_error(self):
        pass

    def create_volume(self, volume):
        self._make(volume, volume['size'])

    def create_volume_from_snapshot(self, volume, snapshot):
        self._make(volume, volume['size'])

    def create_cloned_volume(self, volume, src_vref):
        self._make(volume, volume['size'])

    def clone_image(self, context, volume, image_location, image_meta, image_service):
        self._make(volume, volume['size'])
        return {}, True

    def extend_volume(self, volume, new_size):
        self._make(volume, new_size)

    def delete_volume(self, volume):
        self._drop(volume)

    def create_snapshot(self, snapshot):
        self._make(snapshot, snapshot['volume_size'])

    def delete_snapshot(self, snapshot):
        self._drop(snapshot)

    def ensure_export(self, context, volume):
        pass

    def create_export(self, context, volume, connector):
        pass

    def remove_export(self, context, volume):
        pass

    def initialize_connection(self, volume, connector):
        return {'driver_volume_type': 'local',
                'data': {'device_path': self._path(volume), 'access_mode': 'rw'}}

    def terminate_connection(self, volume, connector, **kwargs):
        pass

    def _update_volume_stats(self):
        self._stats = {
            'volume_backend_name': 'files', 'vendor_name': 'Naupegos',
            'driver_version': self.VERSION, 'storage_protocol': 'local',
            'total_capacity_gb': 'infinite', 'free_capacity_gb': 'infinite',
            'reserved_percentage': 0, 'QoS_support': False,
            'multiattach': False}
