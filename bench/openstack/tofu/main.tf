# What naupegos makes of a cluster's infrastructure, as OpenTofu's users write it: everything that is alike by for_each, nothing that
# waits for more than it needs. The variables are what bench/openstack decides for both sides.

terraform {
  required_providers {
    openstack = { source = "terraform-provider-openstack/openstack" }
  }
}

provider "openstack" {
  cloud = var.cloud
}

variable "cloud" { type = string }
variable "cluster" { type = string } # name of what there is one of, and beginning of the other names
variable "mark" { type = string }    # tag of everything
variable "cidr" { type = string }
variable "external_network" { type = string }
variable "image" { type = string }
variable "flavor" { type = string }
variable "volume_size" { type = number } # GiB; 0: the root disk is the hypervisor's own
variable "public_key" { type = string }
variable "own_volumes" { type = bool } # root volumes as resources of their own; else Nova makes them with their servers

variable "machines" {
  type = map(object({ role = string, user_data = string }))
}

variable "rules" {
  type = map(object({
    role = string, direction = string, ethertype = string, protocol = optional(string), first = optional(number), last = optional(number),
    cidr = optional(string), from = optional(string),
  }))
}

locals {
  roles          = toset([for m in var.machines : m.role])
  control_planes = { for name, m in var.machines : name => m if m.role == "control-plane" }
}

data "openstack_networking_network_v2" "external" {
  name     = var.external_network
  external = true
}

data "openstack_images_image_v2" "machine" {
  name        = var.image
  most_recent = true
}

data "openstack_compute_flavor_v2" "machine" {
  name = var.flavor
}

# --- network

resource "openstack_networking_network_v2" "cluster" {
  name        = var.cluster
  description = var.mark
  tags        = [var.mark]
}

resource "openstack_networking_subnet_v2" "cluster" {
  name        = var.cluster
  description = var.mark
  network_id  = openstack_networking_network_v2.cluster.id
  cidr        = var.cidr
  tags        = [var.mark]
}

resource "openstack_networking_router_v2" "cluster" {
  name                = var.cluster
  description         = var.mark
  external_network_id = data.openstack_networking_network_v2.external.id
  tags                = [var.mark]
}

resource "openstack_networking_router_interface_v2" "cluster" {
  router_id = openstack_networking_router_v2.cluster.id
  subnet_id = openstack_networking_subnet_v2.cluster.id
}

# --- security groups: Neutron itself makes the two rules that let everything out

resource "openstack_networking_secgroup_v2" "role" {
  for_each    = local.roles
  name        = "${var.cluster}.${each.key}"
  description = var.mark
  tags        = [var.mark]
}

resource "openstack_networking_secgroup_rule_v2" "role" {
  for_each          = var.rules
  security_group_id = openstack_networking_secgroup_v2.role[each.value.role].id
  direction         = each.value.direction
  ethertype         = each.value.ethertype
  protocol          = each.value.protocol
  port_range_min    = each.value.first
  port_range_max    = each.value.last
  remote_ip_prefix  = each.value.cidr
  remote_group_id   = each.value.from == null ? null : openstack_networking_secgroup_v2.role[each.value.from].id
}

# --- machines

resource "openstack_compute_keypair_v2" "cluster" {
  name       = var.cluster
  public_key = var.public_key
}

resource "openstack_compute_servergroup_v2" "role" {
  for_each = local.roles
  name     = "${var.cluster}.${each.key}"
  policies = ["soft-anti-affinity"]
}

resource "openstack_networking_port_v2" "machine" {
  for_each           = var.machines
  name               = each.key
  description        = var.mark
  network_id         = openstack_networking_network_v2.cluster.id
  security_group_ids = [openstack_networking_secgroup_v2.role[each.value.role].id]
  tags               = [var.mark]
  fixed_ip {
    subnet_id = openstack_networking_subnet_v2.cluster.id
  }
}

resource "openstack_blockstorage_volume_v3" "root" {
  for_each = var.own_volumes && var.volume_size > 0 ? var.machines : {}
  name     = each.key
  size     = var.volume_size
  image_id = data.openstack_images_image_v2.machine.id
  metadata = { cluster = var.cluster }
}

resource "openstack_compute_instance_v2" "machine" {
  for_each  = var.machines
  name      = each.key
  flavor_id = data.openstack_compute_flavor_v2.machine.id
  image_id  = var.volume_size > 0 ? null : data.openstack_images_image_v2.machine.id
  key_pair  = openstack_compute_keypair_v2.cluster.name
  user_data = each.value.user_data
  metadata  = { cluster = var.cluster }
  tags      = [var.cluster]

  network {
    port = openstack_networking_port_v2.machine[each.key].id
  }

  scheduler_hints {
    group = openstack_compute_servergroup_v2.role[each.value.role].id
  }

  dynamic "block_device" {
    for_each = var.volume_size > 0 ? [1] : []
    content {
      uuid                  = var.own_volumes ? openstack_blockstorage_volume_v3.root[each.key].id : data.openstack_images_image_v2.machine.id
      source_type           = var.own_volumes ? "volume" : "image"
      destination_type      = "volume"
      volume_size           = var.own_volumes ? null : var.volume_size
      boot_index            = 0
      delete_on_termination = true
    }
  }
}

# --- the API's load balancer

resource "openstack_lb_loadbalancer_v2" "api" {
  name          = "${var.cluster}.api"
  description   = var.mark
  vip_subnet_id = openstack_networking_subnet_v2.cluster.id
  tags          = [var.mark]
}

resource "openstack_lb_pool_v2" "api" {
  name            = "${var.cluster}.api"
  loadbalancer_id = openstack_lb_loadbalancer_v2.api.id
  protocol        = "TCP"
  lb_method       = "LEAST_CONNECTIONS"
  tags            = [var.mark]
}

resource "openstack_lb_listener_v2" "api" {
  name                = "${var.cluster}.api"
  loadbalancer_id     = openstack_lb_loadbalancer_v2.api.id
  default_pool_id     = openstack_lb_pool_v2.api.id
  protocol            = "TCP"
  protocol_port       = 6443
  timeout_client_data = 3600000
  timeout_member_data = 3600000
  tags                = [var.mark]
}

resource "openstack_lb_monitor_v2" "api" {
  name             = "${var.cluster}.api"
  pool_id          = openstack_lb_pool_v2.api.id
  type             = "TLS-HELLO"
  delay            = 3
  timeout          = 2
  max_retries      = 2
  max_retries_down = 2
  depends_on       = [openstack_lb_listener_v2.api] # see members
}

resource "openstack_lb_members_v2" "api" { # all by one call
  pool_id = openstack_lb_pool_v2.api.id

  dynamic "member" {
    for_each = local.control_planes
    content {
      name          = member.key
      address       = openstack_networking_port_v2.machine[member.key].all_fixed_ips[0]
      protocol_port = 6443
    }
  }

  # Octavia changes a load balancer by one request at a time; two that come at once it now and then refuses with a wrong reason ("not a
  # valid option"), and nothing retries it.
  depends_on = [openstack_lb_monitor_v2.api]
}

resource "openstack_networking_floatingip_v2" "api" {
  pool        = var.external_network
  port_id     = openstack_lb_loadbalancer_v2.api.vip_port_id
  description = var.mark
  tags        = [var.mark]
  depends_on  = [openstack_networking_router_interface_v2.cluster] # Neutron refuses it before there is a way out
}
