# ruff: noqa: E501
"""Cgroup paths and what they tell, one a line: name ; path, `|` after the unit's top directory ; manager ; unit ; facts.

<U> is a pod uid, <U_> the same with underscores, <C1> and <C2> are container ids, <HASH> is a static pod's.
"""

TABLE = r"""
case_energy_c1 ; /kubepods/pod<U>|/<C1> ; kubernetes ; <U> ; container=<C1>;qos=guaranteed;runtime=None;pod_uid=<U>;permanent=True;anchor=/kubepods
case_energy_c1_systemd ; /kubepods.slice/kubepods-pod<U_>.slice|/cri-containerd-<C1>.scope ; kubernetes ; <U> ; container=<C1>;qos=guaranteed;runtime=containerd
case_energy_c2 ; /kubepods/burstable/pod<U>|/<C1> ; kubernetes ; <U> ; container=<C1>;qos=burstable
case_energy_c2_besteffort ; /kubepods/besteffort/pod<U>|/<C1> ; kubernetes ; <U> ; container=<C1>;qos=besteffort
case_energy_c4_path ; /docker/<C1>/kubelet/kubepods/besteffort/pod<U>|/<C2> ; kubernetes ; <U> ; container=<C2>;qos=besteffort;anchor=/docker/<C1>/kubelet/kubepods
case_energy_c4_v2 ; /system.slice/docker-<C1>.scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod<U_>.slice|/cri-containerd-<C2>.scope ; kubernetes ; <U> ; container=<C2>;qos=besteffort
case_energy_c5 ; /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<U_>.slice|/docker-<C1>.scope ; kubernetes ; <U> ; container=<C1>;runtime=docker
case_energy_c6 ; /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<U_>.slice|/cri-containerd-<C1>.scope ; kubernetes ; <U> ; container=<C1>;runtime=containerd;qos=burstable
case_energy_c6_crio ; /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<U_>.slice|/crio-<C1>.scope/container ; kubernetes ; <U> ; container=<C1>;runtime=crio
case_energy_c8 ; /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<U_>.slice|/crio-conmon-<C1>.scope ; kubernetes ; <U> ; container=None
case_energy_c8_cgroupfs ; /kubepods/burstable/pod<U>|/crio-conmon-<C1> ; kubernetes ; <U> ; container=None
case_energy_c9 ; /system.slice/containerd.service/kubepods-burstable-pod<U_>.slice:cri-containerd:<C1>| ; kubernetes ; <U> ; container=<C1>;runtime=containerd;qos=burstable;anchor=/system.slice/containerd.service
case_energy_c9_root ; /kubepods-pod<U_>.slice:cri-containerd:<C1>| ; kubernetes ; <U> ; container=<C1>;qos=guaranteed
case_energy_c13 ; /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<HASH>.slice|/crio-<C1>.scope ; kubernetes ; <HASH> ; container=<C1>;permanent=False
case_energy_c13_cgroupfs ; /kubepods/burstable/pod<HASH>|/<C1> ; kubernetes ; <HASH> ; container=<C1>
case_energy_c18 ; /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<U_>.slice|/crio-<C1>.scope/machine/qemu-1-vm.libvirt-qemu ; kubernetes ; <U> ; container=<C1>
pod_itself ; /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<U_>.slice| ; kubernetes ; <U> ; container=None;is_top=True
custom_root ; /k8s.slice/k8s-kubepods.slice/k8s-kubepods-pod<U_>.slice|/crio-<C1>.scope ; kubernetes ; <U> ; anchor=/k8s.slice/k8s-kubepods.slice
container_made_in_a_pod ; /kubepods/pod<U>|/<C1>/docker/<C2> ; kubernetes ; <U> ; container=<C1>
foreign_namespace ; /../../kubepods/pod<U>|/<C1> ; kubernetes ; <U> ; container=<C1>
job_in_a_pod_named_like_slurm ; /kubepods/pod<U>|/<C1>/job_7 ; kubernetes ; <U>
case_energy_c20 ; /system.slice/node1_slurmstepd.scope/job_42|/step_0/user/task_0 ; slurm ; 42 ; node_name=node1;anchor=/system.slice/node1_slurmstepd.scope;is_top=False
case_energy_c20_v1 ; /slurm_node1/uid_1000/job_42|/step_batch ; slurm ; 42 ; node_name=node1;uid=1000;anchor=/slurm_node1
case_energy_c21 ; /system.slice/slurmstepd.scope/job_42|/step_extern/user/task_special ; slurm ; 42 ; node_name=None
case_ceems_284 ; /system.slice/node0_slurmstepd.scope/job_7| ; slurm ; 7 ; node_name=node0;is_top=True
case_ceems_289 ; /slurm_host0/uid_1000/job_1009249| ; slurm ; 1009249 ; node_name=host0;uid=1000
node_name_of_many_parts ; /system.slice/gpu-1_a.b_slurmstepd.scope/job_1|/step_0 ; slurm ; 1 ; node_name=gpu-1_a.b
v1_plain ; /slurm/uid_0/job_5|/step_0/task_0 ; slurm ; 5 ; node_name=None;uid=0
v1_without_uid ; /slurm/job_5| ; slurm ; 5 ; uid=None
sluid ; /system.slice/slurmstepd.scope/<SLUID>|/step_0/user/task_0 ; slurm ; <SLUID> ; provisional=True
sluid_and_node ; /system.slice/n1_slurmstepd.scope/<SLUID>| ; slurm ; <SLUID> ; provisional=True;node_name=n1
podman_in_a_job ; /system.slice/slurmstepd.scope/job_42|/step_0/user/task_0/libpod-<C1>.scope ; slurm ; 42
leading_zeros ; /slurm/uid_1/job_0042| ; slurm ; 42
slurm_in_a_container ; /docker/<C1>/slurm/uid_1/job_3|/step_0 ; slurm ; 3
case_energy_c22 ; /oar/jean-pierre.d_1234| ; oar ; 1234 ; user=jean-pierre.d;anchor=/oar
case_energy_c22_digits ; /oar/user01_1234| ; oar ; 1234 ; user=user01
case_energy_c22_oar3_a ; /oar.slice/oar-u1000.scope/oar-u1000-j123456| ; oar ; 123456 ; uid=1000
case_energy_c22_oar3_b ; /oar.slice/system/oar-u10-j1| ; oar ; 1 ; uid=10
case_energy_c22_oar3_c ; /oar.slice/oar-u1000-j1234| ; oar ; 1234 ; anchor=/oar.slice
oar3 ; /oar.slice/oar-u1000.slice/oar-u1000-j1234.slice|/oar-u1000-j1234-p77.scope ; oar ; 1234 ; uid=1000;anchor=/oar.slice
oar3_sub_job ; /oar.slice/oar-u9.slice/oar-u9-j12.slice|/oar-u9-j12-tab.slice/oar-u9-j12-tab-p1.scope ; oar ; 12 ; uid=9
proof_of_concept ; /oar.slice/alice_42.scope| ; oar ; 42 ; user=alice
underscore_in_the_user ; /oar/a_b_42| ; oar ; 42 ; user=a_b
oardocker ; /oardocker/node1/oar/user_1234| ; oar ; 1234 ; user=user;node_name=node1;anchor=/oardocker/node1/oar
cpuset_path ; /dev/cpuset/oar/alice_1| ; oar ; 1 ; user=alice
below ; /oar/alice_1|/child ; oar ; 1 ; is_top=False
case_energy_c16 ; /machine.slice/machine-qemu\x2d3\x2dinstance\x2d00000008.scope|/libvirt/emulator ; libvirt ; instance-00000008 ; name=instance-00000008;vm_id=3;provisional=True;anchor=/machine.slice
case_energy_c16_vcpu ; /machine.slice/machine-qemu\x2d3\x2dinstance\x2d00000008.scope|/libvirt/vcpu0 ; libvirt ; instance-00000008
case_energy_c17 ; /machine.slice/machine-qemu\x2d12\x2dmyvm.scope| ; libvirt ; myvm ; vm_id=12;name=myvm
case_energy_c17_proxmox ; /qemu.slice/104.scope| ; libvirt ; 104 ; vm_id=104;name=None
name_with_space_and_accent ; /machine.slice/machine-qemu\x2d1\x2dd\xc3\xa9mo\x20a.scope| ; libvirt ; d%C3%A9mo%20a ; name=démo a
without_systemd ; /machine/qemu-1-NAME.libvirt-qemu|/vcpu0 ; libvirt ; NAME ; vm_id=1;anchor=/machine
without_systemd_in_a_partition ; /machine/prod.partition/qemu-2-a.b.libvirt-qemu| ; libvirt ; a.b
partition_of_systemd_name ; /machine.slice/qemu-1-instance-00000001.libvirt-qemu|/emulator ; libvirt ; instance-00000001
old_libvirt ; /libvirt/qemu/web|/vcpu1 ; libvirt ; web ; vm_id=None
libvirt_lxc ; /machine.slice/machine-lxc\x2d5\x2dct.scope| ; libvirt ; ct
docker_v1 ; /docker/<C1>| ; docker ; <C1> ; runtime=docker;anchor=/docker
docker_v2 ; /system.slice/docker-<C1>.scope| ; docker ; <C1> ; anchor=/system.slice
docker_in_docker ; /docker/<C1>/docker/<C2>| ; docker ; <C2>
service_in_docker ; /docker/<C1>|/system.slice/nginx.service ; docker ; <C1>
rootless_docker ; /user.slice/user-1000.slice/user@1000.service/user.slice/docker-<C1>.scope| ; docker ; <C1>
ecs ; /ecs/task/<C1>| ; docker ; <C1>
nerdctl ; /system.slice/nerdctl-<C1>.scope| ; docker ; <C1> ; runtime=nerdctl
case_energy_c12 ; /user.slice/user-1000.slice/user@1000.service/user.slice/libpod-<C1>.scope|/container ; podman ; <C1> ; container=<C1>
case_energy_c12_quadlet ; /system.slice/x.service/libpod-payload-<C1>| ; podman ; <C1> ; container=<C1>
case_energy_c12_payload_in_its_scope ; /machine.slice/libpod-<C1>.scope|/libpod-payload-<C1> ; podman ; <C1>
case_energy_c12_podman_in_podman ; /machine.slice/libpod-<C1>.scope/container/libpod_parent/libpod-<C2>| ; podman ; <C2>
podman_root ; /machine.slice/libpod-<C1>.scope| ; podman ; <C1>
podman_pod ; /machine.slice/machine-libpod_pod_<C2>.slice/libpod-<C1>.scope|/container ; podman ; <C1>
podman_cgroupfs ; /libpod_parent/libpod-<C1>| ; podman ; <C1>
podman_monitor ; /machine.slice/libpod-conmon-<C1>.scope| ; system ; conmon
lxc ; /lxc/101|/ns/system.slice/x.service ; lxc ; 101
lxc_payload ; /lxc.payload.web|/init.scope ; lxc ; web
lxc_monitor ; /lxc.monitor.web| ; system ; lxc
case_energy_c10 ; /system.slice/containerd.service| ; system ; containerd.service
case_energy_c10_docker ; /system.slice/docker.service| ; system ; docker.service
case_energy_c10_crio.service ; /system.slice/crio.service| ; system ; crio.service
case_energy_c10_kubelet.service ; /system.slice/kubelet.service| ; system ; kubelet.service
case_energy_c10_slurmd.service ; /system.slice/slurmd.service| ; system ; slurmd.service
case_energy_c10_libvirtd.service ; /system.slice/libvirtd.service| ; system ; libvirtd.service
case_energy_c10_virtqemud.service ; /system.slice/virtqemud.service| ; system ; virtqemud.service
case_energy_c10_slurmstepd.scope ; /system.slice/slurmstepd.scope| ; system ; slurmstepd.scope
case_energy_c10_n1_slurmstepd.scope ; /system.slice/n1_slurmstepd.scope| ; system ; n1_slurmstepd.scope
case_energy_c10_slurmd@n1.service ; /system.slice/slurmd@n1.service| ; system ; slurmd@n1.service
case_energy_c10_k3s.service ; /system.slice/k3s.service| ; system ; k3s.service
case_energy_c10_kwhere-agent.service ; /system.slice/kwhere-agent.service| ; system ; kwhere-agent.service
case_energy_c10_slurmd_by_name ; /system.slice/slurmd-n1.service| ; system ; slurmd-n1.service
case_energy_c10_slurmd_of_a_node ; /system.slice/node1_slurmd.service| ; system ; node1_slurmd.service
daemon_in_a_runtime_slice ; /runtime.slice/containerd.service|/x ; system ; containerd.service
slurmstepd_own_part ; /system.slice/slurmstepd.scope|/system ; system ; slurmstepd.scope
init ; /init.scope| ; system ; init
case_energy_c8_crio_default ; /system.slice/crio-conmon-<C1>.scope| ; system ; conmon
case_energy_c8_crio_in_a_slice_of_its_own ; /machine.slice/crio-conmon-<C1>.scope|/x ; system ; conmon
case_energy_c8_podman_cgroupfs ; /libpod_parent/conmon| ; system ; conmon
case_energy_c10_cri-docker.service ; /system.slice/cri-docker.service| ; system ; cri-docker.service
case_energy_c10_snap_docker ; /system.slice/snap.docker.dockerd.service| ; system ; snap.docker.dockerd.service
case_energy_c10_snap_microk8s ; /system.slice/snap.microk8s.daemon-kubelite.service| ; system ; snap.microk8s.daemon-kubelite.service
case_energy_c10_snap_containerd ; /system.slice/snap.microk8s.daemon-containerd.service| ; system ; snap.microk8s.daemon-containerd.service
case_energy_c10_snap_lxd ; /system.slice/snap.lxd.daemon.service| ; system ; snap.lxd.daemon.service
case_energy_c10_lxc_by_snap ; /system.slice/snap.lxd.daemon.service/lxc.payload.web| ; lxc ; web
snap_of_an_application ; /system.slice/snap.nextcloud.apache.service| ; systemd ; snap.nextcloud.apache.service
service ; /system.slice/nginx.service| ; systemd ; nginx.service ; name=nginx.service
sub_group ; /system.slice/nginx.service|/worker ; systemd ; nginx.service
template ; /system.slice/system-getty.slice/getty@tty1.service| ; systemd ; getty@tty1.service ; anchor=/system.slice
escaped_template ; /system.slice/system-fsck.slice/fsck@dev-disk-by\x2duuid.service| ; systemd ; fsck@dev-disk-by%5Cx2duuid.service ; name=fsck@dev-disk-by-uuid.service
session ; /user.slice/user-1000.slice/session-3.scope| ; session ; 3 ; uid=1000;anchor=/user.slice
session_of_the_greeter ; /user.slice/user-42.slice/session-c1.scope| ; session ; c1 ; uid=42
user_manager ; /user.slice/user-1000.slice/user@1000.service|/init.scope ; systemd ; user@1000.service ; uid=1000
desktop_application ; /user.slice/user-1000.slice/user@1000.service/app.slice/app-gnome-firefox-4711.scope| ; systemd ; app-gnome-firefox-4711.scope ; uid=1000
desktop_terminal_tab ; /user.slice/user-1000.slice/user@1000.service/app.slice/app-org.gnome.Terminal.slice/vte-spawn-1.scope| ; systemd ; vte-spawn-1.scope ; uid=1000
desktop_plumbing ; /user.slice/user-1000.slice/user@1000.service|/session.slice/pipewire.service ; systemd ; user@1000.service ; uid=1000
nspawn ; /machine.slice/machine-web.scope| ; systemd ; machine-web.scope
run_at_the_root ; /kwhere-run-4711-1795975931| ; run ; 4711-1795975931 ; anchor=/
run_in_a_session ; /user.slice/user-1000.slice/session-3.scope/kwhere-run-1-2| ; run ; 1-2
run_in_a_job_is_the_job ; /system.slice/slurmstepd.scope/job_42|/step_0/user/task_0/kwhere-run-1-2 ; slurm ; 42
"""
